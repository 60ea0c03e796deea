import { API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import type { Certificate } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { createOrUpdate, equal, type KubeObject, ownerReference } from '../../../kube/mod.ts';
import { RESOURCES } from '../../kinds.ts';
import { makeSystemAuthority } from './system-authority.ts';

interface Wanted {
  /** the object that it ends with */
  owner: KubeObject;
  /** of the Certificate, its subject and its Secret */
  name: string;
  /** an authority of the system */
  authority: string;
  hosts: readonly string[];
}

/** Makes or changes a certificate of a program of the system. Resolves with the texts of its Secret; undefined while it is being made. */
export async function keepSystemCertificate(
  deps: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>,
  { owner, name, authority, hosts }: Wanted,
  signal: AbortSignal,
): Promise<Record<string, string> | undefined> {
  const { client, namespace, stores } = deps;
  await makeSystemAuthority(deps, authority, signal);
  const spec: Certificate['spec'] = {
    ...{ subject: name, hosts: hosts.join(','), keyAlgorithm: 'ECDSA' },
    ca: { type: 'direct', secretName: authority },
  };
  await createOrUpdate<Certificate>(
    client,
    RESOURCES.certificates,
    { namespace, name },
    (present) => {
      const metadata = { ...(present?.metadata ?? { name, namespace }), ownerReferences: [ownerReference(owner)] };
      const merged = { ...present?.spec, ...spec };
      if (present && equal(present.spec, merged) && equal(present.metadata, metadata)) return present;
      return { apiVersion: API_VERSION, kind: RESOURCES.certificates.kind, ...present, metadata, spec: merged };
    },
    {
      known: stores.certificates.get(namespace, name),
      signal,
      call: { fieldManager: FIELD_MANAGERS.controller },
    },
  );
  const texts = decodeData(stores.secrets.get(namespace, name)?.data);
  return texts['tls.crt'] === undefined ? undefined : texts;
}
