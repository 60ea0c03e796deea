import type { Application, EdgeNode, MicroserviceEntry } from '../api/v3/index.ts';
import { type Kind, referenceKey, refsTo } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Lookups, Observation } from '../rules/inputs.ts';
import { entryUuid, nodeUuid, registryId, v3Name } from '../rules/names.ts';
import { holder } from '../rules/precedence.ts';
import { resolveRegistry } from '../subjects/catalog/rules/registry.ts';
import { type MountOnNode, mountsOn } from '../subjects/content/rules/volume-mount/on-node.ts';
import { KINDS } from '../subjects/kinds.ts';
import { requestRebuild } from '../subjects/nodes/rules/actions.ts';
import { liveness } from '../subjects/nodes/rules/liveness.ts';
import { presentNode } from '../subjects/nodes/rules/observed.ts';
import { currentNodeOf, nodeOf } from '../subjects/nodes/rules/placement/entries.ts';
import type { LiveNode } from '../subjects/nodes/rules/read.ts';
import { nodeRefsOf } from '../subjects/workloads/kinds/application.ts';
import { agentInHost } from '../subjects/workloads/rules/application/extra-hosts.ts';
import type { ReferredValue } from '../subjects/workloads/rules/application/microservice-read.ts';
import type { ReadContext } from '../subjects/workloads/rules/application/read.ts';
import { resolveEnv } from '../subjects/workloads/rules/entry/env.ts';
import type { MicroserviceStatus } from '../wire/agent.ts';
import type { Caller } from './access/access.ts';
import type { RestDependencies } from './dependencies.ts';

type LiveSources = Pick<RestDependencies, 'observations' | 'provisioning' | 'clock'>;

/** The present state of nodes, measurements included. */
export async function liveNodes(
  deps: LiveSources,
  nodes: readonly EdgeNode[],
  signal: AbortSignal,
): Promise<(node: EdgeNode) => LiveNode> {
  const observations = await deps.observations.of(nodes.map(nodeUuid), signal);
  const now = deps.clock();
  return (node) => {
    const observation = observations.get(nodeUuid(node));
    // Without a report in memory only the stored status says whether a node is silent.
    const listeningSince = observation?.reportedAt === undefined ? now : deps.observations.listeningSince();
    const provisioned = deps.provisioning(nodeUuid(node));
    return {
      liveness: liveness(node, observation, now, listeningSince),
      ...(observation && { observation }),
      ...(provisioned && { provisioned }),
    };
  };
}

/**
 * Nodes as reads show them at this moment. Every rule that refuses a request because of what a node reports is given these:
 * the stored status is up to half a second older (docs/spec/rest-v3.md#one-truth).
 */
export async function presentNodes(
  deps: LiveSources,
  nodes: readonly EdgeNode[],
  signal: AbortSignal,
): Promise<(node: EdgeNode) => EdgeNode> {
  const live = await liveNodes(deps, nodes, signal);
  return memo((node) => presentNode(node, live(node)));
}

/** Lookups in which the nodes of entries, and those that they or their extra hosts name, are as reads show them. */
export async function presentLookups(
  deps: LiveSources & Pick<RestDependencies, 'lookups'>,
  application: Application,
  entries: readonly MicroserviceEntry[],
  signal: AbortSignal,
): Promise<Lookups> {
  const { lookups } = deps;
  const named = entries.flatMap((entry) => [
    nodeOf(entry, lookups),
    currentNodeOf(application, entry, lookups),
    ...(entry.container?.extraHosts ?? []).map(({ address }) => lookups.nodeByName(agentInHost(address) ?? '')),
  ]);
  const nodes = [...new Set(named)].filter((node) => node !== undefined);
  const uuids = new Set(nodes.map(nodeUuid));
  const present = await presentNodes(deps, nodes, signal);
  const seen = (node: EdgeNode | undefined) => (node && uuids.has(nodeUuid(node)) ? present(node) : node);
  return {
    ...lookups,
    nodeByName: (name) => seen(lookups.nodeByName(name)),
    nodeByUuid: (uuid) => seen(lookups.nodeByUuid(uuid)),
  };
}

/** The annotations that order a rebuild of these entries: one more than was ordered, and than their machines report. */
export async function rebuildOrder(
  deps: LiveSources & Pick<RestDependencies, 'lookups'>,
  application: Application,
  names: readonly string[],
  signal: AbortSignal,
): Promise<Record<string, string>> {
  if (names.length === 0) return {};
  const entries = (application.spec.microservices ?? []).filter(({ name }) => names.includes(name));
  const lookups = await presentLookups(deps, application, entries, signal);
  const reported = entries.map((entry) => {
    const uuid = entryUuid(application, entry);
    const { microservices } = currentNodeOf(application, entry, lookups)?.status ?? {};
    return [entry.name, microservices?.find((one) => one.uuid === uuid)?.rebuildCount ?? 0] as const;
  });
  return requestRebuild(application, names, new Map(reported));
}

/** The applications whose entries refer to an object. */
export const applicationsReferringTo = <T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  object: T,
): ReadonlySet<Application> =>
  new Set(refsTo(kind, object).flatMap((ref) => deps.applications.find('ref', referenceKey({ to: kind.key, ref }))));

/**
 * The volume mounts of nodes, for a list of them: it looks through the applications of a node only when the node may have one,
 * so that the cost grows with the use of volume mounts and not with what runs.
 */
export function mountsOfNodes(deps: RestDependencies): (node: EdgeNode) => readonly MountOnNode[] {
  const mounted = new Set<string>();
  for (const mount of deps.volumeMounts.list()) {
    for (const node of mount.spec.nodes ?? []) mounted.add(node);
    for (const application of applicationsReferringTo(deps, KINDS.volumeMounts, mount))
      for (const ref of nodeRefsOf(application)) mounted.add(ref.slice(ref.indexOf(':') + 1));
  }
  return (node) => (mounted.has(nodeUuid(node)) || mounted.has(v3Name(node)) ? mountsOn(node, deps.lookups) : []);
}

/**
 * The other objects that reads of these applications need. Every lookup is made once. With `of: 'all'` it requests all
 * nodes, which is less work for many applications. Without a caller, reads have no value of a Secret or ConfigMap.
 */
export async function readContext(
  deps: RestDependencies,
  of: readonly Application[] | 'all',
  signal: AbortSignal,
  caller?: Caller,
): Promise<ReadContext> {
  const nodeByName = memo((name: string) => holder(deps.nodes.find('name', name)));
  const nodeByUuid = memo((uuid: string) => holder(deps.nodes.find('uuid', uuid), { uuid }));
  const nodesReporting = memo((name: string) => deps.nodes.find('reports', name));

  const nodes = new Set<EdgeNode>(of === 'all' ? deps.nodes.list() : []);
  for (const application of of === 'all' ? [] : of) {
    for (const node of nodesReporting(v3Name(application))) nodes.add(node);
    for (const entry of application.spec.microservices ?? []) {
      const node = currentNodeOf(application, entry, { nodeByName, nodeByUuid });
      if (node) nodes.add(node);
    }
  }
  const live = memo(await liveNodes(deps, [...nodes], signal));
  const statuses = memo((node: EdgeNode) => statusItems(live(node).observation));
  return {
    nodeByName,
    nodeByUuid,
    nodesReporting,
    liveness: (node) => live(node).liveness,
    live: (node, uuid) => statuses(node).get(uuid),
    now: deps.clock(),
    ...(caller && { referredValue: await referredValues(deps, caller) }),
    applicationsOn: deps.lookups.applicationsOn,
    catalogItem: memo(catalogItemOf(deps)),
    registryId: memo((ref: number | string) => {
      const registry = resolveRegistry(deps.lookups.find, ref);
      return registry && registryId(registry);
    }),
  };
}

/** The values of Secrets and ConfigMaps in reads, of the kinds that the caller may read. */
async function referredValues({ lookups }: RestDependencies, caller: Caller): Promise<ReferredValue> {
  const [secrets, configMaps] = await Promise.all([
    caller.may({ resource: 'secrets/data', verb: 'get' }),
    caller.may({ resource: 'configmaps', verb: 'get' }),
  ]);
  return (item) => {
    const isShown = item.valueFromSecret !== undefined ? secrets : item.valueFromConfigMap !== undefined && configMaps;
    if (!isShown) return undefined;
    const resolved = resolveEnv(item, lookups);
    return 'env' in resolved ? resolved.env.value : undefined;
  };
}

/** The catalog item that a reference means. */
export const catalogItemOf =
  ({ lookups }: Pick<RestDependencies, 'lookups'>) =>
  (ref: number | string) =>
    lookups.find('catalogItems', ref);

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
