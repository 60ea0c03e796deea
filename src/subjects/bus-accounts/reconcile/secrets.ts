import { FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData, encodeData } from '../../../datastore/keyed-text.ts';
import { apiVersionOf, createOrUpdate, equal, type KubeObject, ownerReference } from '../../../kube/mod.ts';
import { onceEach } from '../../../rules/once-each.ts';
import { withoutSharing } from '../../content/rules/core-objects/form.ts';
import { RESOURCES } from '../../kinds.ts';
import { type BusSecretOf, type BusTexts, isBusSecretOf } from '../rules/secret.ts';

/** A Secret of the bus as the store has it; `isTaken`: something else has its name. */
export interface BusSecret {
  name: string;
  known: Secret | undefined;
  texts: BusTexts;
  isTaken: boolean;
}

/** Reads and writes the Secrets with keys and tokens of the bus. Objects of a store never change, so that each is decoded once. */
export function createBusSecrets({
  client,
  namespace,
  stores,
}: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>) {
  /** data that this process wrote last and that the store did not show yet, by name */
  const sent = new Map<string, Secret['data']>();
  const textsIn = onceEach((secret: Secret): BusTexts => decodeData(secret.data));

  function read(of: BusSecretOf, name: string): BusSecret {
    const known = stores.secrets.get(namespace, name);
    const isTaken = known !== undefined && !isBusSecretOf(known, of);
    return { name, known, isTaken, texts: known && !isTaken ? textsIn(known) : {} };
  }

  /**
   * Makes a Secret have the texts that `change` makes of the present ones, and the owner. `change` may run several times: who lost
   * a race decides again by what the winner wrote. Resolves with the texts; undefined when something else has the name, or
   * `change` returned nothing.
   */
  async function write(
    { of, name, owner }: { of: BusSecretOf; name: string; owner?: KubeObject },
    change: (present: BusTexts) => Promise<BusTexts | undefined>,
    signal: AbortSignal,
  ): Promise<BusTexts | undefined> {
    let result: BusTexts | undefined;
    const call = createOrUpdate<Secret>(
      client,
      RESOURCES.secrets,
      { namespace, name },
      async (present) => {
        result = undefined;
        if (present && !isBusSecretOf(present, of)) return undefined;
        result = await change(present ? textsIn(present) : {});
        if (!result) return undefined;
        const data = encodeData(result);
        const { ownerReferences: _, ...kept } = withoutSharing(present?.metadata ?? { name, namespace });
        const metadata = {
          ...kept,
          labels: { ...kept.labels, [LABELS.bus]: of },
          // Nothing deletes the key of the operator with an object.
          ...(owner && { ownerReferences: [ownerReference(owner)] }),
        };
        const isSame = present && equal(present.data, data) && equal(present.metadata, metadata);
        if (isSame) return present;
        const { kind } = RESOURCES.secrets;
        sent.set(name, data);
        return { apiVersion: apiVersionOf(RESOURCES.secrets), kind, type: 'Opaque', ...present, metadata, data };
      },
      { known: stores.secrets.get(namespace, name), signal, call: { fieldManager: FIELD_MANAGERS.controller } },
    );
    await call.catch((error: unknown) => {
      sent.delete(name);
      throw error;
    });
    return result;
  }

  /** Deletes a Secret as the store has it. */
  async function remove(of: BusSecretOf, name: string, signal: AbortSignal): Promise<void> {
    const { known, isTaken } = read(of, name);
    const uid = known?.metadata.uid;
    sent.delete(name);
    if (uid === undefined || isTaken) return;
    await client.delete(RESOURCES.secrets, { namespace, name }, { signal, preconditions: { uid } });
  }

  /** Whether a Secret that the store shows is what this process wrote there last. Asked once for each change. */
  function isOwn({ metadata: { name }, data }: Secret): boolean {
    const own = sent.get(name);
    if (!own || !equal(own, data)) return false;
    sent.delete(name);
    return true;
  }

  return { read, write, remove, isOwn };
}

export type BusSecrets = ReturnType<typeof createBusSecrets>;
