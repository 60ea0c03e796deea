import { type EdgeNode, edgeNodeResource } from '../../../api/v3/edge-node.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { upstreamsOf } from '../rules/upstreams.ts';

export const edgeNodeKind = defineKind<EdgeNode>()({
  key: 'nodes',
  definition: edgeNodeResource,
  noun: 'node',
  access: 'infrastructure',
  rest: { tag: 'Nodes', key: 'uuid', notFound: 'INVALID_NODE_UUID' },
  indexes: {
    /** names of the applications that it still reports */
    reports: reportedApplicationsOf,
    /** names and uuids of the nodes that it names as routers or bus servers */
    upstream: ({ spec }) => upstreamsOf(spec),
    /** `true`: the nodes of the system */
    system: ({ spec }) => (spec.isSystem ? ['true'] : []),
    /** the addresses under which others are to reach them */
    host: ({ spec }) => (spec.host ? [spec.host] : []),
  },
});

/** Names of the applications whose containers a node still reports. */
export function reportedApplicationsOf(node: EdgeNode): Iterable<string> {
  const names = new Set<string>();
  for (const { application } of node.status?.microservices ?? []) if (application) names.add(application);
  return names;
}
