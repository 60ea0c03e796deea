import { FIELD_MANAGERS, LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { encodeData } from '../../../datastore/keyed-text.ts';
import { createOrUpdate, equal, type KubeObject, ownerReference } from '../../../kube/mod.ts';
import { withoutSharing } from '../../content/rules/core-objects/form.ts';
import { RESOURCES } from '../../kinds.ts';
import { isSecretOf, isSystemCertificate, type Texts } from '../rules/authority.ts';
import type { OwnSecret } from './material.ts';

/** How the Secrets of the two kinds differ. */
const TYPES = { certificate: 'kubernetes.io/tls', authority: 'Opaque' } as const;

/** Microservices may use the Secret of a certificate alone, and never of the system's. */
const isForMicroservices = (label: keyof typeof TYPES, name: string) =>
  label === 'certificate' && !isSystemCertificate(name);

/**
 * Writes the Secret of a certificate or an authority with these texts alone, when it differs. Its label says whose it is: after the
 * restore of a backup the owner has another uid, and takes it over. A Secret of something else is left as it is.
 */
export async function writeSecret(
  { client, namespace }: Pick<ControllerDependencies, 'client' | 'namespace'>,
  write: Pick<OwnSecret, 'name' | 'known'> & { owner: KubeObject; label: keyof typeof TYPES; texts: Texts },
  signal: AbortSignal,
): Promise<void> {
  const { name, known, owner, label } = write;
  const isShared = isForMicroservices(label, owner.metadata.name);
  const data = encodeData(write.texts);
  await createOrUpdate<Secret>(
    client,
    RESOURCES.secrets,
    { namespace, name },
    (present) => {
      if (present && !isSecretOf(present, label, owner.metadata.name)) return undefined;
      // A key that another leader wrote meanwhile must not be lost. The store brings it, and another run.
      if (present?.metadata.resourceVersion !== known?.metadata.resourceVersion) return undefined;
      const before = present?.metadata ?? { name, namespace };
      const kept = isShared ? before : withoutSharing(before);
      const metadata = {
        ...kept,
        labels: {
          ...kept.labels,
          ...(isShared && { [LABELS.shareable]: 'true' }),
          [LABELS[label]]: owner.metadata.name,
        },
        ownerReferences: [ownerReference(owner)],
      };
      const isSame = present && equal(present.data, data) && equal(present.metadata, metadata);
      return isSame ? present : { apiVersion: 'v1', kind: 'Secret', type: TYPES[label], ...present, metadata, data };
    },
    { known, signal, call: { fieldManager: FIELD_MANAGERS.controller } },
  );
}

/** Deletes the Secret of an object that ends: another object of its name gets another key. */
export async function deleteSecret(
  { client, namespace }: Pick<ControllerDependencies, 'client' | 'namespace'>,
  { name, known, taken }: OwnSecret,
  signal: AbortSignal,
): Promise<void> {
  const uid = known?.metadata.uid;
  if (uid === undefined || taken) return;
  await client.delete(RESOURCES.secrets, { namespace, name }, { signal, preconditions: { uid } });
}
