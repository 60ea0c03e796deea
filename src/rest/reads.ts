import type { Application, EdgeNode } from '../api/v3/index.ts';
import type { ReadContext } from '../domain/application/read.ts';
import { type LiveNode, liveness, resolveRegistry, v3Name } from '../domain/index.ts';
import type { Observation } from '../domain/inputs.ts';
import { nodeUuid, registryId } from '../domain/names.ts';
import { oldest } from '../stores/oldest.ts';
import type { MicroserviceStatus } from '../wire/index.ts';
import type { Ports } from './dependencies.ts';

/** What is known of nodes at this moment, measurements included. */
export async function liveNodes(
  ports: Ports,
  nodes: readonly EdgeNode[],
  signal: AbortSignal,
): Promise<(node: EdgeNode) => LiveNode> {
  const observations = await ports.observations.of(nodes.map(nodeUuid), signal);
  const now = ports.clock();
  return (node) => {
    const observation = observations.get(nodeUuid(node));
    // Of a node of which we have heard no report ourselves only the stored status may say that it is silent.
    const listeningSince = observation?.reportedAt === undefined ? now : ports.observations.listeningSince();
    const provisioned = ports.provisioning(nodeUuid(node));
    return {
      liveness: liveness(node, observation, now, listeningSince),
      ...(observation && { observation }),
      ...(provisioned && { provisioned }),
    };
  };
}

/**
 * What reads of these applications need besides them. Every lookup is made once. `of: 'all'` when the applications are
 * so many that asking for all nodes is less work than finding theirs.
 */
export async function readContext(
  ports: Ports,
  of: readonly Application[] | 'all',
  signal: AbortSignal,
): Promise<ReadContext> {
  const nodeByName = memo((name: string) => oldest(ports.nodes.find('name', name)));
  const nodeByUuid = memo((uuid: string) => oldest(ports.nodes.find('uuid', uuid)));
  const nodesReporting = memo((name: string) => ports.nodes.find('reports', name));

  const nodes = new Set<EdgeNode>(of === 'all' ? ports.nodes.list() : []);
  for (const application of of === 'all' ? [] : of) {
    for (const node of nodesReporting(v3Name(application))) nodes.add(node);
    for (const { agent } of application.spec.microservices ?? []) {
      const node = agent?.uuid ? nodeByUuid(agent.uuid) : agent?.name ? nodeByName(agent.name) : undefined;
      if (node) nodes.add(node);
    }
  }
  const live = memo(await liveNodes(ports, [...nodes], signal));
  const statuses = memo((node: EdgeNode) => statusItems(live(node).observation));
  return {
    nodeByName,
    nodeByUuid,
    nodesReporting,
    liveness: (node) => live(node).liveness,
    live: (node, uuid) => statuses(node).get(uuid),
    now: ports.clock(),
    applicationsOn: ports.world.applicationsOn,
    registryId: memo((ref: number | string) => {
      const registry = resolveRegistry(ports.world.registry, ref);
      return registry && registryId(registry);
    }),
  };
}

function statusItems(observation: Observation | undefined): ReadonlyMap<string, MicroserviceStatus> {
  return new Map(observation?.report.microserviceStatus?.map((item) => [item.id, item]));
}

function memo<K, V>(compute: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => {
    if (known.has(key)) return known.get(key) as V;
    const value = compute(key);
    known.set(key, value);
    return value;
  };
}
