import { ANNOTATIONS } from '../../api/names.ts';
import type { ConfigMap, Secret } from '../../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../../api/v3/index.ts';
import { entryUuid, nodeUuid, v3Name } from '../../domain/names.ts';

/** The indexes that the stores given to createPorts must declare; equal to those of the agent routes where both have one. */
export const REST_INDEXES = {
  nodes: {
    uuid: (node: EdgeNode) => [nodeUuid(node)],
    name: (node: EdgeNode) => [v3Name(node)],
    reports: reportedApplications,
  },
  applications: {
    name: (application: Application) => [v3Name(application)],
    node: nodeReferences,
    microservice: (application: Application) =>
      (application.spec.microservices ?? []).map((entry) => entryUuid(application, entry)),
  },
  registries: {
    id: (registry: Registry) => (registry.spec.id === undefined ? [] : [String(registry.spec.id)]),
    name: (registry: Registry) => [v3Name(registry)],
  },
  secrets: { name: textName },
  configMaps: { name: textName },
} as const;

/** `name:<node>` and `uuid:<node>`: the nodes that an application's entries name. */
function nodeReferences(application: Application): Iterable<string> {
  return new Set(
    (application.spec.microservices ?? []).flatMap(({ agent }) =>
      agent?.uuid ? [`uuid:${agent.uuid}`] : agent?.name ? [`name:${agent.name}`] : [],
    ),
  );
}

/** Names of the applications whose containers a node still reports. */
function reportedApplications(node: EdgeNode): Iterable<string> {
  return new Set((node.status?.microservices ?? []).flatMap(({ application }) => (application ? [application] : [])));
}

/** v3 name of a core object. */
function textName(object: Secret | ConfigMap): string[] {
  return [object.metadata.annotations?.[ANNOTATIONS.name] ?? object.metadata.name];
}
