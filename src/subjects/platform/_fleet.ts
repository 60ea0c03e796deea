import { type InMemoryController, NAMESPACE } from '../../../testing/in-memory-controller.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import { nodeUuid } from '../../rules/identity.ts';
import { readPair } from '../pki/rules/pair.ts';
import { platformSecretName } from './rules/secret.ts';

/** What tests read and change of the platforms of nodes, by the number of the node; `fleet` is asked for at each use. */
export function platformsOf(fleet: () => InMemoryController) {
  const node = (i = 0) => fleet().node(i);
  const uuid = (i = 0) => nodeUuid(node(i));
  const secret = (of = uuid()) => fleet().stores.secrets.get(NAMESPACE, platformSecretName(of));
  const texts = (of = uuid()) => decodeData(secret(of)?.data);
  return {
    node,
    uuid,
    secret,
    texts,
    setsOf: (of = uuid()) => (fleet().desired(of)?.systemFiles ?? []).map(({ name }) => name),
    async set(spec: Partial<EdgeNode['spec']>, i = 0): Promise<void> {
      fleet().cluster.edit(node(i), (copy) => {
        Object.assign(copy.spec, spec);
      });
      await fleet().settle();
    },
    /** A certificate of the first node. */
    facts(name: string) {
      const { [`${name}.crt`]: cert = '', [`${name}.key`]: key = '' } = texts();
      const read = readPair({ cert, key });
      if ('problem' in read) throw new Error(read.problem);
      return read;
    },
    ref: (object: { metadata: { name: string } } | undefined) => ({
      namespace: NAMESPACE,
      name: object?.metadata.name ?? '',
    }),
    /** The writes during an act, by verb and resource. */
    async writes(act: () => Promise<void>): Promise<Record<string, number>> {
      const before = new Map(fleet().cluster.writes);
      await act();
      return Object.fromEntries(
        [...fleet().cluster.writes].flatMap(([what, count]) => {
          const more = count - (before.get(what) ?? 0);
          return more > 0 ? [[what, more]] : [];
        }),
      );
    },
  };
}
