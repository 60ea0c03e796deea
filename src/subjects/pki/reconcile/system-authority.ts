import { ANNOTATIONS, API_VERSION, FIELD_MANAGERS } from '../../../api/names.ts';
import type { CertificateAuthority } from '../../../api/v3/certificate-authority.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createOrUpdate } from '../../../kube/mod.ts';
import { RESOURCES } from '../../kinds.ts';

/** The authorities of the system are made when something first needs them, so that an installer may bring its own before. */
export async function makeSystemAuthority(
  { client, namespace, stores }: Pick<ControllerDependencies, 'client' | 'namespace' | 'stores'>,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  if (stores.certificateAuthorities.get(namespace, name)) return;
  await createOrUpdate<CertificateAuthority>(
    client,
    RESOURCES.certificateAuthorities,
    { namespace, name },
    (present) =>
      present ?? {
        apiVersion: API_VERSION,
        kind: RESOURCES.certificateAuthorities.kind,
        // Without it, nodes could not be reached by what trusts it.
        metadata: { name, namespace, annotations: { [ANNOTATIONS.protected]: 'true' } },
        spec: { type: 'self-signed' },
      },
    { signal, call: { fieldManager: FIELD_MANAGERS.controller } },
  );
}
