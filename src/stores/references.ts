import { ANNOTATIONS, LABELS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
import { entryUuid } from '../domain/names.ts';
import { registryKey, registryRefsOf } from '../domain/registry/index.ts';
import { compareResourceVersions } from '../kube/mod.ts';

/** v3 name of a core object. */
export const textNameOf = (object: Secret | ConfigMap) =>
  object.metadata.annotations?.[ANNOTATIONS.name] ?? object.metadata.name;

/** `name:<node>` and `uuid:<node>`: the nodes that an application's entries name. */
export function nodeRefsOf(application: Application): Iterable<string> {
  const refs = new Set<string>();
  for (const { agent } of application.spec.microservices ?? []) {
    if (agent?.uuid) refs.add(`uuid:${agent.uuid}`);
    else if (agent?.name) refs.add(`name:${agent.name}`);
  }
  return refs;
}

/** uuids of an application's microservices. */
export function entryUuidsOf(application: Application): readonly string[] {
  return (application.spec.microservices ?? []).map((entry) => entryUuid(application, entry));
}

/** Names of the applications whose containers a node still reports. */
export function reportedApplicationsOf(node: EdgeNode): Iterable<string> {
  const names = new Set<string>();
  for (const { application } of node.status?.microservices ?? []) if (application) names.add(application);
  return names;
}

/** `secret:<name>` and `configMap:<name>`: what the entries of an application take values from. */
export function sourcesOf(application: Application): Iterable<string> {
  const refs = new Set<string>();
  for (const { container } of application.spec.microservices ?? []) {
    for (const { valueFromSecret, valueFromConfigMap } of container?.env ?? []) {
      if (valueFromSecret) refs.add(`secret:${valueFromSecret.split('/')[0]}`);
      if (valueFromConfigMap) refs.add(`configMap:${valueFromConfigMap.split('/')[0]}`);
    }
  }
  return refs;
}

/** `id:<id>` and `name:<name>`: how the entries of an application name their registries. */
export const registriesOf = (application: Application): Iterable<string> =>
  Array.from(registryRefsOf(application), registryKey);

/** Name of the Secret with the password of a registry. */
export const passwordSecretOf = ({ spec: { passwordSecretRef } }: Registry): readonly string[] =>
  passwordSecretRef ? [passwordSecretRef.name] : [];

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
