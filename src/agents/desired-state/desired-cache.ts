import { isDeepStrictEqual } from 'node:util';
import type { ConfigMap, Secret } from '../../api/resources.ts';
import type { Application, Registry } from '../../api/v3/index.ts';
import type { DesiredState, NodeInputs } from '../../domain/inputs.ts';
import { applicationUuid, nodeUuid, registryId, v3Name } from '../../domain/names.ts';
import { entryUuidsOf } from '../../kinds/application.ts';
import { KINDS, refsTo } from '../../kinds/index.ts';
import type { Change, KubeObject } from '../../kube/mod.ts';
import { isWorkedFromAlike } from '../../stores/node-change.ts';
import { oldest } from '../../stores/oldest.ts';
import { textNameOf } from '../../stores/references.ts';
import type { Digests, MicroserviceView } from '../../wire/index.ts';
import type { AgentMetrics, AgentStores } from '../dependencies.ts';
import { createNodeInputs, dependency, nodesOf } from './node-inputs.ts';

/**
 * The desired state of nodes, computed when asked for and remembered until something that it was made from changes.
 *
 * - A change of any input makes the memo of the nodes concerned, and of no other, invalid before the writer of the
 *   store goes on: nobody gets an older answer afterwards.
 * - Digests stay for every node; whole states only for those used lately.
 */
export interface DesiredCache extends Disposable {
  /** Undefined when there is no such node. */
  digests(uuid: string): Digests | undefined;
  state(uuid: string): DesiredState | undefined;
  /** From now on the views of this node's microservices are kept when a verdict turns against them. */
  keepAdmitted(uuid: string): void;
  /** The views as last admitted, by microservice; only of nodes that {@link keepAdmitted} was called for. */
  admitted(uuid: string): ReadonlyMap<string, MicroserviceView>;
  /** Called with the nodes whose memo has become invalid. Must be quick. */
  subscribe(listener: (nodes: ReadonlySet<string>) => void): Disposable;
}

export interface DesiredCacheOptions {
  stores: AgentStores;
  namespace: string;
  revisionKey?: string;
  desiredState: (inputs: NodeInputs) => DesiredState;
  metrics?: AgentMetrics;
  /** whole states kept */
  capacity?: number;
}

interface Memo {
  digests: Digests;
  dependencies: ReadonlySet<string>;
  valid: boolean;
}

const NOTHING: ReadonlyMap<string, MicroserviceView> = new Map();

export function createDesiredCache(options: DesiredCacheOptions): DesiredCache {
  const { stores, desiredState, metrics = {}, capacity = 1_000 } = options;
  const inputsOf = createNodeInputs(stores, options);
  const memos = new Map<string, Memo>();
  const dependents = new Map<string, Set<string>>();
  /** in order of use, oldest first */
  const states = new Map<string, DesiredState>();
  const admitted = new Map<string, Map<string, MicroserviceView>>();
  const listeners = new Set<(nodes: ReadonlySet<string>) => void>();

  function compute(uuid: string): Memo | undefined {
    const node = oldest(stores.nodes.byIndex('uuid', uuid));
    if (!node) {
      drop(uuid);
      return undefined;
    }
    metrics.agent?.('desired-state', 'computed');
    const used = new Set<string>();
    const state = desiredState(inputsOf(node, (key) => used.add(key)));
    const memo: Memo = { digests: state.digests, dependencies: used, valid: true };
    link(uuid, memos.get(uuid)?.dependencies, used);
    memos.set(uuid, memo);
    keep(uuid, state);
    remember(uuid, state);
    return memo;
  }

  function current(uuid: string): Memo | undefined {
    const memo = memos.get(uuid);
    if (memo?.valid) return memo;
    return compute(uuid);
  }

  function keep(uuid: string, state: DesiredState) {
    states.delete(uuid);
    states.set(uuid, state);
    if (states.size <= capacity) return;
    const first = states.keys().next();
    if (!first.done) states.delete(first.value);
  }

  /** Views of entries that may run; those of held ones stay as they were; entries that are gone are forgotten. */
  function remember(uuid: string, state: DesiredState) {
    const views = admitted.get(uuid);
    if (!views) return;
    for (const entry of views.keys()) if (!state.entries.has(entry)) views.delete(entry);
    for (const view of state.microservices) if (!('hold' in view)) views.set(view.uuid, view);
  }

  function link(uuid: string, before: ReadonlySet<string> | undefined, after: ReadonlySet<string>) {
    for (const key of before ?? []) {
      if (after.has(key)) continue;
      const nodes = dependents.get(key);
      nodes?.delete(uuid);
      if (nodes?.size === 0) dependents.delete(key);
    }
    for (const key of after) {
      const nodes = dependents.get(key);
      if (nodes) nodes.add(uuid);
      else dependents.set(key, new Set([uuid]));
    }
  }

  function drop(uuid: string) {
    link(uuid, memos.get(uuid)?.dependencies, new Set());
    memos.delete(uuid);
    states.delete(uuid);
    admitted.delete(uuid);
  }

  function invalidate(nodes: ReadonlySet<string>) {
    if (nodes.size === 0) return;
    for (const uuid of nodes) {
      const memo = memos.get(uuid);
      if (memo) memo.valid = false;
    }
    for (const listener of listeners) listener(nodes);
  }

  const subscriptions = [
    stores.nodes.subscribe((change) => {
      if (change.initial || !matters(change, isWorkedFromAlike)) return;
      const nodes = new Set<string>();
      for (const node of bothOf(change)) {
        nodes.add(nodeUuid(node));
        add(nodes, dependents.get(dependency.node(v3Name(node))));
        // Another node may have shared its name, and be the oldest now.
        for (const namesake of stores.nodes.byIndex('name', v3Name(node))) nodes.add(nodeUuid(namesake));
      }
      invalidate(nodes);
    }),
    stores.applications.subscribe((change) => {
      if (change.initial || !matters(change, sameApplication)) return;
      const nodes = new Set<string>();
      for (const application of bothOf(change)) {
        add(nodes, nodesOf(stores, application));
        // Those that share its name or a uuid are judged anew.
        const rivals = new Set(stores.applications.byIndex('name', v3Name(application)));
        for (const rival of stores.applications.byIndex('uuid', applicationUuid(application))) rivals.add(rival);
        for (const entry of entryUuidsOf(application)) {
          for (const rival of stores.applications.byIndex('microservice', entry)) rivals.add(rival);
        }
        rivals.delete(application);
        for (const rival of rivals) add(nodes, nodesOf(stores, rival));
      }
      invalidate(nodes);
    }),
    stores.registries.subscribe((change) => {
      if (change.initial || !matters(change, sameRegistry)) return;
      const nodes = new Set<string>();
      for (const registry of bothOf(change))
        for (const ref of refsTo(KINDS.registries, registry)) add(nodes, dependents.get(dependency.registry(ref)));
      invalidate(nodes);
    }),
    stores.secrets.subscribe((change) => {
      if (change.initial || !matters(change, sameContent)) return;
      const nodes = new Set<string>();
      for (const secret of bothOf(change)) {
        add(nodes, dependents.get(dependency.secret(textNameOf(secret))));
        add(nodes, dependents.get(dependency.password(secret.metadata.name)));
      }
      invalidate(nodes);
    }),
    stores.configMaps.subscribe((change) => {
      if (change.initial || !matters(change, sameContent)) return;
      const nodes = new Set<string>();
      for (const configMap of bothOf(change)) {
        add(nodes, dependents.get(dependency.configMap(textNameOf(configMap))));
      }
      invalidate(nodes);
    }),
  ];

  return {
    digests: (uuid) => {
      const before = memos.get(uuid);
      const memo = current(uuid);
      if (memo === before) metrics.agent?.('desired-state', 'remembered');
      return memo?.digests;
    },
    state(uuid) {
      const memo = current(uuid);
      if (!memo) return undefined;
      const state = states.get(uuid);
      if (state) {
        keep(uuid, state);
        return state;
      }
      compute(uuid);
      return states.get(uuid);
    },
    keepAdmitted(uuid) {
      if (admitted.has(uuid)) return;
      admitted.set(uuid, new Map());
      const state = states.get(uuid);
      if (state) remember(uuid, state);
    },
    admitted: (uuid) => admitted.get(uuid) ?? NOTHING,
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    [Symbol.dispose]() {
      for (const subscription of subscriptions) subscription[Symbol.dispose]();
      listeners.clear();
    },
  };
}

function add(to: Set<string>, from: Iterable<string> | undefined) {
  for (const one of from ?? []) to.add(one);
}

const bothOf = <T>(change: Change<T>): T[] => [change.object, ...(change.previous ? [change.previous] : [])];

/** Whether a change touches what desired states read; statuses of applications and heartbeats of nodes do not. */
function matters<T extends KubeObject>(change: Change<T>, same: (a: T, b: T) => boolean): boolean {
  if (change.type === 'delete' || !change.previous) return true;
  const [now, before] = [change.object, change.previous];
  return !(
    now.metadata.uid === before.metadata.uid &&
    now.metadata.deletionTimestamp === before.metadata.deletionTimestamp &&
    isDeepStrictEqual(now.metadata.annotations, before.metadata.annotations) &&
    same(now, before)
  );
}

/** The API server raises the generation with every change of a spec, and with no other. */
const sameSpec = (a: Application | Registry, b: Application | Registry) =>
  a.metadata.generation === b.metadata.generation;
/** Who somebody is does not stand in the spec. */
const sameApplication = (a: Application, b: Application) => sameSpec(a, b) && applicationUuid(a) === applicationUuid(b);
const sameRegistry = (a: Registry, b: Registry) => sameSpec(a, b) && registryId(a) === registryId(b);

const sameContent = (a: Secret | ConfigMap, b: Secret | ConfigMap) =>
  isDeepStrictEqual(a.data, b.data) &&
  isDeepStrictEqual(a.metadata.labels, b.metadata.labels) &&
  isDeepStrictEqual(a.metadata.ownerReferences, b.metadata.ownerReferences);
