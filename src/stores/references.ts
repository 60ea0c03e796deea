import { ANNOTATIONS, LABELS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import { compareResourceVersions } from '../kube/mod.ts';

/** v3 name of a core object. */
export const textNameOf = (object: Secret | ConfigMap) =>
  object.metadata.annotations?.[ANNOTATIONS.name] ?? object.metadata.name;

/** uuid of the node that a provisioning key is for; nothing for any other Secret. */
export function provisioningKeyOf({ metadata }: Secret): readonly string[] {
  const uuid = metadata.labels?.[LABELS.provisioningKey];
  return uuid === undefined ? [] : [uuid];
}

/**
 * Of the provisioning keys of one node the latest works. One that an agent used stays until it expires: it answers the
 * same agent again.
 */
export const isReplacedBy = (key: Secret, other: Secret) =>
  key.data?.publicKey === undefined &&
  (compareResourceVersions(key.metadata.resourceVersion, other.metadata.resourceVersion) ?? 0) < 0;
