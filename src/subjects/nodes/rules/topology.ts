import type { EdgeNode, RouterHub } from '../../../api/v3/index.ts';
import type { HubSettings } from '../../../rules/bus-hub.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { v3Name } from '../../../rules/names.ts';
import { byAge } from '../../../rules/precedence.ts';
import { ROUTER_HUB_OBJECT, ROUTER_PORTS } from '../../../rules/router-hub.ts';
import { routerModeOf } from './modes.ts';
import { hostOf, settingShown } from './settings.ts';
import { namedBusServers } from './upstreams.ts';

interface NetworkRow {
  mode: 'routerMode' | 'busMode';
  /** names or uuids of what a node connects to */
  upstreams(spec: EdgeNode['spec']): readonly string[];
  roles: readonly string[];
  core: string;
}

/**
 * The router and bus networks as they are configured (docs/spec/rest-v3.md#network-topology). A node takes part in a network
 * unless its mode is `none`; a connection is an upstream that the node names and that exists. The hub belongs to the control plane,
 * and what names no bus server connects to it.
 */
export const NETWORKS = {
  router: {
    mode: 'routerMode',
    upstreams: ({ upstreamRouters = [] }) => upstreamRouters,
    roles: ['default', 'interior', 'edge'],
    core: 'interior',
  },
  bus: { mode: 'busMode', upstreams: namedBusServers, roles: ['hub', 'server', 'leaf'], core: 'server' },
} as const satisfies Record<string, NetworkRow>;
export type Network = keyof typeof NETWORKS;

export const DEPLOYMENT_TARGETS = ['orchestrator', 'remote', 'embedded'] as const;

const DETAILS = {
  router: ['messagingPort', 'edgeRouterPort', 'interRouterPort'],
  bus: [
    'busServerPort',
    'busLeafPort',
    'busClusterPort',
    'busMqttPort',
    'busHttpPort',
    'jsStorageSize',
    'jsMemoryStoreSize',
  ],
} as const;

export interface TopologyNode {
  id: string;
  nodeUuid: string;
  fogName: string;
  displayName: string;
  host: string;
  deploymentTarget: (typeof DEPLOYMENT_TARGETS)[number];
  role: string;
  mode: string;
}

/** From the node that connects to the upstream that it connects to. */
export interface TopologyConnection {
  id: string;
  source: string;
  dest: string;
}

export interface Topology {
  /** by id, in the order of names behind what the control plane has */
  nodes: ReadonlyMap<string, TopologyNode>;
  /** in the order of their sources */
  connections: readonly TopologyConnection[];
}

/** What the control plane has in a network, which is no node. */
export interface CoreMember {
  id: string;
  host: string;
  deploymentTarget: TopologyNode['deploymentTarget'];
  /** the first of the network, such as `hub` */
  role: string;
}

interface TopologyOptions {
  isBusOn: boolean;
  /** whether nodes have routers; absent: the router network is shown as it is configured */
  hasRouters?: boolean | undefined;
  /** absent: nothing but nodes */
  own?: CoreMember | undefined;
}

/** Of several nodes with one name the first given counts. */
export function topologyOf(network: Network, nodes: Iterable<EdgeNode>, options: TopologyOptions): Topology {
  const { isBusOn, own } = options;
  const { mode, upstreams } = NETWORKS[network];
  const all = [...nodes];
  const hasRouters = network === 'router' && options.hasRouters === true;
  const system = hasRouters ? all.filter(({ spec }) => spec.isSystem).sort(byAge) : [];
  const facts = { hasDefaultRouter: own !== undefined || system.length > 0 };
  const modeOf = (node: EdgeNode) =>
    hasRouters ? routerModeOf(node, facts) : String(settingShown(node, mode, isBusOn));
  const members = all
    .filter((node) => modeOf(node) !== 'none')
    .map((node) => ({ node, shown: topologyNode(node, modeOf(node), !own && node === system[0]) }))
    .sort((a, b) => (a.shown.fogName < b.shown.fogName ? -1 : 1));
  const core = own && { ...own, nodeUuid: '', fogName: '', displayName: own.id, mode: own.role };
  const byId = new Map([...(core ? [core] : []), ...members.map(({ shown }) => shown)].map((one) => [one.id, one]));
  const byName = new Map(members.toReversed().map(({ shown }) => [shown.fogName, shown]));
  const connections = members.flatMap(({ node, shown: { id: source } }) => {
    // The routers of nodes of the system are asked for as well, by the younger ones of them.
    const before = node.spec.isSystem ? system.slice(0, system.indexOf(node)) : system;
    const named = linksOf(node, hasRouters, upstreams(node.spec), before.map(nodeUuid)).flatMap((name) => {
      const ref = name === ROUTER_HUB_OBJECT && !own && system[0] ? nodeUuid(system[0]) : name;
      const dest = (byId.get(ref) ?? byName.get(ref))?.id;
      return dest === undefined || dest === source ? [] : [dest];
    });
    return [...new Set(named)].map((dest) => ({ id: `${source}-${dest}`, source, dest }));
  });
  return { nodes: byId, connections };
}

/** What a node connects to: what its router reports, else what it is asked for. A node reports its own links alone. */
function linksOf(
  { status }: EdgeNode,
  hasRouters: boolean,
  named: readonly string[],
  system: readonly string[],
): readonly string[] {
  if (!hasRouters) return named;
  if (status?.router) return status.router.links ?? [];
  return named.length > 0 ? named : [ROUTER_HUB_OBJECT, ...system];
}

/** The default router outside of a cluster is an interior router of a node. */
function topologyNode(node: EdgeNode, mode: string, isDefault: boolean): TopologyNode {
  const [uuid, name] = [nodeUuid(node), v3Name(node)];
  return {
    id: uuid,
    nodeUuid: uuid,
    fogName: name,
    displayName: name,
    host: hostOf(node) ?? '',
    deploymentTarget: settingShown(node, 'containerEngine', false) === 'embedded' ? 'embedded' : 'remote',
    role: isDefault ? NETWORKS.router.roles[0] : mode,
    mode,
  };
}

/** Ports and sizes of one member of a network, with the names that v3 has for them. */
export function topologyDetails(network: Network, node: EdgeNode): Record<string, unknown> {
  const shown = DETAILS[network].map((field) => [shortName(field), settingShown(node, field, false)]);
  return { ...Object.fromEntries(shown), ...(network === 'router' ? { isDefault: false } : { isHub: false }) };
}

/** The same of the hub. */
export const hubDetails = (hub: HubSettings): Record<string, unknown> => {
  const { host: _, ...details } = hub;
  return { ...details, isHub: true };
};

/** The same of the default router. */
export const defaultRouterDetails = ({ spec }: Pick<RouterHub, 'spec'>): Record<string, unknown> => {
  const ports = Object.entries(ROUTER_PORTS).map(([field, port]) => [
    field,
    spec[field as keyof typeof ROUTER_PORTS] ?? port,
  ]);
  return { ...Object.fromEntries(ports), isDefault: true };
};

/** `busServerPort` -> `serverPort`. */
const shortName = (field: string) => field.replace(/^bus(\w)/, (_, first: string) => first.toLowerCase());

export function topologySummary(network: Network, { nodes, connections }: Topology): Record<string, unknown> {
  const byRole: Record<string, number> = Object.fromEntries(NETWORKS[network].roles.map((role) => [role, 0]));
  for (const { role } of nodes.values()) byRole[role] = (byRole[role] ?? 0) + 1;
  return { totalNodes: nodes.size, totalConnections: connections.length, byRole };
}

/** The core of a network, and how many others connect to each of its nodes; `upstreamOf` is null for those without one. */
export function topologyOverview(network: Network, { nodes, connections }: Topology): Record<string, unknown> {
  const { core } = NETWORKS[network];
  const upstreamsOf = Map.groupBy(connections, ({ source }) => source);
  const counts = new Map<string | null, number>();
  for (const { id, role } of nodes.values()) {
    if (role === core || role === NETWORKS[network].roles[0]) continue;
    for (const upstream of upstreamsOf.get(id)?.map(({ dest }) => dest) ?? [null])
      counts.set(upstream, (counts.get(upstream) ?? 0) + 1);
  }
  const role = network === 'router' ? 'edge' : 'leaf';
  return {
    defaultNode: [...nodes.values()].find((node) => node.role === NETWORKS[network].roles[0]) ?? null,
    [`${core}Nodes`]: [...nodes.values()].filter((node) => node.role === core),
    spokeGroups: [...counts].map(([upstreamOf, count]) => ({ upstreamOf, role, count })),
  };
}

export const connectionsOf = (id: string, { connections }: Topology) => ({
  upstream: connections.filter(({ source }) => source === id),
  downstream: connections.filter(({ dest }) => dest === id),
});

/** The most nodes that a subgraph has, whatever its limit. */
const SUBGRAPH_NODES = 200;

/** The nodes that are at most `depth` connections away from one, nearest first, and the connections between them. */
export function subgraph(
  { nodes, connections }: Topology,
  { center, depth, limit }: { center: string; depth: number; limit: number },
): { nodes: TopologyNode[]; connections: TopologyConnection[] } {
  const neighbours = new Map<string, string[]>();
  const note = (a: string, b: string) => neighbours.set(a, [...(neighbours.get(a) ?? []), b]);
  for (const { source, dest } of connections) {
    note(source, dest);
    note(dest, source);
  }
  const most = Math.min(limit, SUBGRAPH_NODES);
  const found = new Set([center]);
  let ring = [center];
  for (let step = 0; step < depth; step++) {
    ring = ring
      .flatMap((id) => neighbours.get(id) ?? [])
      .filter((id) => found.size < most && !found.has(id) && found.add(id));
  }
  return {
    nodes: [...found].flatMap((id) => nodes.get(id) ?? []),
    connections: connections.filter(({ source, dest }) => found.has(source) && found.has(dest)),
  };
}
