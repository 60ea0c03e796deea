import { type EdgeNode, edgeNodeResource } from '../../../api/v3/edge-node.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { busModeOf, isInteriorRouter } from '../rules/modes.ts';
import { serviceTagKey, tagWords } from '../rules/service-tags.ts';
import { hostOf } from '../rules/settings.ts';
import { systemApplicationName } from '../rules/system-application.ts';
import { tunnelPortOf, wantsTunnel } from '../rules/tunnel.ts';
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
    /** `wanted`: it is to have a tunnel; `waiting`: and has no port for it */
    tunnel: (node) => (wantsTunnel(node) ? ['wanted', ...(tunnelPortOf(node) === undefined ? ['waiting'] : [])] : []),
    /** the port of the ssh server that belongs to its tunnel */
    tunnelPort: (node) => [tunnelPortOf(node) ?? []].flat().map(String),
    /** `true`: the nodes of the system */
    system: ({ spec }) => (spec.isSystem ? ['true'] : []),
    /** `true`: the nodes whose bus server has all accounts */
    busServer: (node) => (busModeOf(node, true) === 'server' ? ['true'] : []),
    /** `true`: the nodes with an interior router */
    interior: (node) => (isInteriorRouter(node) ? ['true'] : []),
    /** the addresses under which others are to reach them */
    host: ({ spec }) => (spec.host ? [spec.host] : []),
    /** the addresses under which others reach them, by their host or by what their machine reports */
    address(node) {
      const address = hostOf(node);
      return address === undefined ? [] : [address];
    },
    /** the words of their tags that may select services */
    serviceTag: ({ spec }) => (spec.tags ?? []).flatMap((tag) => tagWords(tag) ?? []).map(serviceTagKey),
    /** names of the objects of the system's applications on them */
    systemApplication: (node) => [systemApplicationName(node)],
  },
});

/** Names of the applications whose containers a node still reports. */
export function reportedApplicationsOf(node: EdgeNode): Iterable<string> {
  const names = new Set<string>();
  for (const { application } of node.status?.microservices ?? []) if (application) names.add(application);
  return names;
}
