import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { memoised } from '../../../lib/memoised.ts';
import type { Caller } from '../../../rest/contract/access.ts';
import type { RestDependencies } from '../../../rest/contract/dependencies.ts';
import { type LiveSources, liveNodes, presentNodes } from '../../../rest/objects/present.ts';
import { nodeUuid, registryId } from '../../../rules/identity.ts';
import type { Lookups, Observation } from '../../../rules/inputs.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { holder } from '../../../rules/precedence.ts';
import type { MicroserviceStatus } from '../../../wire/agent.ts';
import { resolveRegistry } from '../../catalog/rules/registry.ts';
import { requestRebuild } from '../../nodes/rules/actions.ts';
import { currentNodeOf, nodeOf } from '../../nodes/rules/placement/entries.ts';
import { agentInHost } from '../rules/application/extra-hosts.ts';
import type { ReferredValue } from '../rules/application/microservice-read.ts';
import type { ReadContext } from '../rules/application/read.ts';
import { resolveEnv } from '../rules/entry/env.ts';

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
  const nodeByName = memoised((name: string) => holder(deps.nodes.find('name', name)));
  const nodeByUuid = memoised((uuid: string) => holder(deps.nodes.find('uuid', uuid), { uuid }));
  const nodesReporting = memoised((name: string) => deps.nodes.find('reports', name));

  const nodes = new Set<EdgeNode>(of === 'all' ? deps.nodes.list() : []);
  for (const application of of === 'all' ? [] : of) {
    for (const node of nodesReporting(v3Name(application))) nodes.add(node);
    for (const entry of application.spec.microservices ?? []) {
      const node = currentNodeOf(application, entry, { nodeByName, nodeByUuid });
      if (node) nodes.add(node);
    }
  }
  const live = memoised(await liveNodes(deps, [...nodes], signal));
  const statuses = memoised((node: EdgeNode) => statusItems(live(node).observation));
  return {
    nodeByName,
    nodeByUuid,
    nodesReporting,
    liveness: (node) => live(node).liveness,
    live: (node, uuid) => statuses(node).get(uuid),
    now: deps.clock(),
    ...(caller && { referredValue: await referredValues(deps, caller) }),
    ...(deps.lookups.bus && { bus: deps.lookups.bus }),
    applicationsOn: deps.lookups.applicationsOn,
    catalogItem: memoised(catalogItemOf(deps)),
    registryId: memoised((ref: number | string) => {
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
