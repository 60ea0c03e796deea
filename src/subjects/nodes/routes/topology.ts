import { z } from 'zod';
import { BOUNDS } from '../../../api/bounds.ts';
import type { RouterHub } from '../../../api/v3/index.ts';
import { replyShape as reply } from '../../../kinds/rest.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { notFound } from '../../../rest/contract/errors.ts';
import { type AnyRoute, grouped, route } from '../../../rest/contract/route.ts';
import { pageQuery } from '../../../rest/crud/shapes.ts';
import { isPresent } from '../../../rest/objects/deletion.ts';
import { HUB_UPSTREAM } from '../../../rules/bus-hub.ts';
import { holder } from '../../../rules/precedence.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import {
  type CoreMember,
  connectionsOf,
  DEPLOYMENT_TARGETS,
  defaultRouterDetails,
  hubDetails,
  NETWORKS,
  type Network,
  subgraph,
  type Topology,
  topologyDetails,
  topologyOf,
  topologyOverview,
  topologySummary,
} from '../rules/topology.ts';

const list = { resource: 'networktopology', verb: 'list' } as const;
const get = { resource: 'networktopology', verb: 'get', name: 'id' } as const;

const idParam = z.object({
  id: z.string().min(1).max(BOUNDS.anyName).describe('uuid of a node, or the name of what the control plane has'),
});
const nodeFields = {
  id: z.string(),
  nodeUuid: z.string(),
  fogName: z.string(),
  displayName: z.string(),
  host: z.string(),
  deploymentTarget: z.enum(DEPLOYMENT_TARGETS),
  role: z.string(),
  mode: z.string(),
};
const nodeShape = reply(nodeFields, 'TopologyNode');
const connectionShape = reply(
  { id: z.string(), source: z.string().describe('the node that connects'), dest: z.string().describe('its upstream') },
  'TopologyConnection',
);
const count = z.number().int();
const page = { total: count, limit: count, offset: count };
const networkSummary = z.looseObject({
  totalNodes: count,
  totalConnections: count,
  byRole: z.record(z.string(), count),
});

const topology = (deps: RestDependencies, network: Network): Topology =>
  topologyOf(
    network,
    deps.nodes.list().filter((node) => isPresent(node)),
    {
      isBusOn: deps.lookups.bus !== undefined,
      hasRouters: deps.self.hasRouters,
      own: network === 'bus' ? hubOf(deps) : defaultRouterMember(deps),
    },
  );

/** The default router of a cluster; outside of one it is the router of a node. */
function defaultRouter({ routerHubs, self }: RestDependencies): RouterHub | undefined {
  if (!self.hasRouters || self.controlPlane === 'remote') return undefined;
  return routerHubs.list().find((hub) => isPresent(hub) && hub.metadata.name === ROUTER_HUB_OBJECT);
}

function defaultRouterMember(deps: RestDependencies): CoreMember | undefined {
  const hub = defaultRouter(deps);
  const host = hub && (hub.spec.host ?? hub.status?.host);
  return host === undefined
    ? undefined
    : { id: ROUTER_HUB_OBJECT, host, deploymentTarget: 'orchestrator', role: 'default' };
}

function hubOf({ lookups, self }: RestDependencies): CoreMember | undefined {
  const hub = lookups.bus?.hub();
  const deploymentTarget = self.controlPlane === 'remote' ? ('remote' as const) : ('orchestrator' as const);
  return hub && { id: HUB_UPSTREAM, host: hub.host, deploymentTarget, role: 'hub' };
}

/** The members of a network, and one of them, or 404. */
function member(deps: RestDependencies, network: Network, id: string) {
  const whole = topology(deps, network);
  const node = whole.nodes.get(id);
  if (node) return { whole, node };
  throw notFound('INVALID_NODE_UUID', `the ${network} network has no node with the id ${id}`);
}

const paged = <T>(items: readonly T[], { limit, offset }: { limit: number; offset: number }) => ({
  items: items.slice(offset, offset + limit),
  page: { total: items.length, limit, offset },
});

/** The routes of one network. */
function networkRoutes(network: Network): AnyRoute[] {
  const { roles, core } = NETWORKS[network];
  const path = `/network-topology/${network}`;
  const capital = network === 'router' ? 'Router' : 'Bus';
  return [
    route({
      method: 'GET',
      path: `${path}/overview`,
      operation: `get${capital}Overview`,
      summary: `The core of the ${network} network and how many nodes connect to it`,
      access: list,
      reply: {
        status: 200,
        schema: reply({
          defaultNode: nodeShape.nullable(),
          [`${core}Nodes`]: z.array(nodeShape),
          spokeGroups: z.array(z.looseObject({ upstreamOf: z.string().nullable(), role: z.string(), count })),
        }),
      },
      handler: ({ deps }) => topologyOverview(network, topology(deps, network)),
    }),
    route({
      method: 'GET',
      path: `${path}/subgraph`,
      operation: `get${capital}Subgraph`,
      summary: `The surroundings of a node in the ${network} network`,
      access: list,
      query: z.strictObject({
        center: z.string().min(1).max(BOUNDS.anyName).describe('id of the node in the middle'),
        depth: z.coerce.number().int().min(1).max(2).default(1).describe('connections away from it'),
        limit: pageQuery.limit,
      }),
      reply: {
        status: 200,
        schema: reply({ nodes: z.array(nodeShape), connections: z.array(connectionShape) }),
      },
      errors: [404],
      handler({ deps, query }) {
        const { whole } = member(deps, network, query.center);
        return subgraph(whole, query);
      },
    }),
    route({
      method: 'GET',
      path: `${path}/nodes`,
      operation: `list${capital}Nodes`,
      summary: `Nodes of the ${network} network`,
      access: list,
      query: z.strictObject({
        ...pageQuery,
        role: z.enum(roles).optional(),
        deploymentTarget: z.enum(DEPLOYMENT_TARGETS).optional(),
        search: z.string().max(BOUNDS.anyName).optional().describe('beginning of the name'),
      }),
      reply: { status: 200, schema: reply({ nodes: z.array(nodeShape), ...page }) },
      handler({ deps, query }) {
        const { role, deploymentTarget, search = '' } = query;
        const nodes = [...topology(deps, network).nodes.values()].filter(
          (node) =>
            (role === undefined || node.role === role) &&
            (deploymentTarget === undefined || node.deploymentTarget === deploymentTarget) &&
            node.fogName.startsWith(search),
        );
        const { items, page } = paged(nodes, query);
        return { nodes: items, ...page };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/nodes/{id}`,
      operation: `get${capital}Node`,
      summary: `One node of the ${network} network`,
      access: get,
      params: idParam,
      reply: { status: 200, schema: reply(nodeFields) },
      handler({ deps, params }) {
        const { node } = member(deps, network, params.id);
        const hub = node.id === HUB_UPSTREAM ? deps.lookups.bus?.hub() : undefined;
        if (hub) return { ...node, ...hubDetails(hub) };
        const router = node.id === ROUTER_HUB_OBJECT ? defaultRouter(deps) : undefined;
        if (router) return { ...node, ...defaultRouterDetails(router) };
        const edgeNode = holder(deps.nodes.find('uuid', node.nodeUuid), { uuid: node.nodeUuid });
        const isDefault = node.role === NETWORKS.router.roles[0];
        return { ...node, ...(edgeNode && topologyDetails(network, edgeNode)), ...(isDefault && { isDefault }) };
      },
    }),
    route({
      method: 'GET',
      path: `${path}/nodes/{id}/connections`,
      operation: `list${capital}ConnectionsOfNode`,
      summary: `Connections of one node in the ${network} network`,
      access: get,
      params: idParam,
      reply: {
        status: 200,
        schema: reply({ upstream: z.array(connectionShape), downstream: z.array(connectionShape) }),
      },
      handler({ deps, params }) {
        const { whole, node } = member(deps, network, params.id);
        return connectionsOf(node.id, whole);
      },
    }),
    route({
      method: 'GET',
      path: `${path}/connections`,
      operation: `list${capital}Connections`,
      summary: `Connections of the ${network} network`,
      access: list,
      query: z.strictObject(pageQuery),
      reply: { status: 200, schema: reply({ connections: z.array(connectionShape), ...page }) },
      handler({ deps, query }) {
        const { items, page } = paged(topology(deps, network).connections, query);
        return { connections: items, ...page };
      },
    }),
  ];
}

export const topologyRoutes = grouped('Network topology', [
  route({
    method: 'GET',
    path: '/network-topology/summary',
    operation: 'getTopologySummary',
    summary: 'How many nodes the router and bus networks have',
    description: 'Networks as they are configured: a node takes part unless its mode is `none`.',
    access: list,
    reply: {
      status: 200,
      schema: reply({
        controlPlane: z.enum(['orchestrator', 'remote']),
        router: networkSummary,
        bus: networkSummary,
      }),
    },
    handler: ({ deps }) => ({
      controlPlane: deps.self.controlPlane === 'remote' ? ('remote' as const) : ('orchestrator' as const),
      router: topologySummary('router', topology(deps, 'router')),
      bus: topologySummary('bus', topology(deps, 'bus')),
    }),
  }),
  ...networkRoutes('router'),
  ...networkRoutes('bus'),
]);
