import { ANNOTATIONS } from '../api/names.ts';
import type { ConfigMap, Secret } from '../api/resources.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';
import { entryUuid, nodeUuid, v3Name } from '../domain/names.ts';

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

/**
 * The indexes that the stores of `AgentStores` must declare. Others may share them: the names mean what they say.
 */
export const AGENT_INDEXES = {
  nodes: {
    uuid: (node: EdgeNode) => [nodeUuid(node)],
    name: (node: EdgeNode) => [v3Name(node)],
    reports: reportedApplicationsOf,
  },
  applications: {
    name: (application: Application) => [v3Name(application)],
    node: nodeRefsOf,
    microservice: entryUuidsOf,
  },
  secrets: { name: (secret: Secret) => [textNameOf(secret)] },
  configMaps: { name: (configMap: ConfigMap) => [textNameOf(configMap)] },
} as const;

/** Of several objects that claim one name or uuid the oldest has it. */
export function oldest<T extends { metadata: { creationTimestamp?: string; uid?: string } }>(
  objects: readonly T[],
): T | undefined {
  let first: T | undefined;
  for (const object of objects) if (!first || isOlder(object, first)) first = object;
  return first;
}

function isOlder<T extends { metadata: { creationTimestamp?: string; uid?: string } }>(a: T, b: T): boolean {
  const [at, bt] = [a.metadata.creationTimestamp ?? '', b.metadata.creationTimestamp ?? ''];
  return at === bt ? (a.metadata.uid ?? '') < (b.metadata.uid ?? '') : at < bt;
}
