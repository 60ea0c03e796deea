import { SERVICE_TAG } from '../api/names.ts';
import { createLookups, type LookupsOptions } from '../datastore/lookups.ts';
import type { ReadStores } from '../datastore/stores.ts';
import type { DesiredState, NodeInputs } from '../rules/inputs.ts';
import type { PlatformOptions } from '../rules/part.ts';
import { holder } from '../rules/precedence.ts';
import type { MicroserviceView } from '../wire/agent.ts';
import type { Digests } from '../wire/sections.ts';
import { type OnAffected, subscribeAffectedNodes } from './affected-nodes.ts';
import { createDependents } from './dependents.ts';
import { createNodeInputs } from './node-inputs.ts';

/**
 * The desired states of nodes, computed when they are read and cached until one of their inputs changes.
 *
 * - A change of an input invalidates exactly the states of the affected nodes, synchronously with the change of the store:
 *   no later response is older.
 * - The digests of all nodes are cached, and the states of those that were used recently.
 */
export interface DesiredCache extends Disposable {
  /** Undefined when there is no such node. */
  digests(uuid: string): Digests | undefined;
  state(uuid: string): DesiredState | undefined;
  /** From now on the last admitted views of this node's microservices stay in memory after a negative verdict. */
  keepAdmitted(uuid: string): void;
  /** The views as last admitted, by microservice; only of nodes that {@link keepAdmitted} was called for. */
  admitted(uuid: string): ReadonlyMap<string, MicroserviceView>;
  /** The listener is called with the nodes whose state has become invalid. It must be fast. */
  subscribe(listener: OnAffected): Disposable;
}

export interface DesiredCacheOptions extends LookupsOptions {
  stores: ReadStores;
  namespace: string;
  platform?: PlatformOptions;
  desiredState: (inputs: NodeInputs) => DesiredState;
  metrics?: { agent?(what: 'desired-state', detail: 'computed' | 'remembered'): void };
  /** maximum of cached states */
  capacity?: number;
}

interface Memo {
  digests: Digests;
  dependencies: ReadonlySet<string>;
  valid: boolean;
}

const NOTHING: ReadonlyMap<string, MicroserviceView> = new Map();

/** Three lines over a hundred: what invalidates a state and what computes it share the states of this replica. */
export function createDesiredCache(options: DesiredCacheOptions): DesiredCache {
  const { stores, desiredState, metrics = {}, capacity = 1_000, namespace, platform } = options;
  const lookups = createLookups(stores, {
    ...options,
    ...(platform?.isBusEnabled && { bus: { namespace } }),
    ...(platform?.hasRouters && {
      routers: { namespace, tagPrefix: platform.serviceTag ?? SERVICE_TAG, mostInterior: platform.mostInterior },
    }),
  });
  const inputsOf = createNodeInputs(lookups, options);
  const memos = new Map<string, Memo>();
  const dependents = createDependents();
  /** in order of use, oldest first */
  const states = new Map<string, DesiredState>();
  const admitted = new Map<string, Map<string, MicroserviceView>>();
  const listeners = new Set<OnAffected>();

  function compute(uuid: string): Memo | undefined {
    const node = holder(stores.nodes.byIndex('uuid', uuid), { uuid });
    if (!node) {
      drop(uuid);
      return undefined;
    }
    metrics.agent?.('desired-state', 'computed');
    const used = new Set<string>();
    const state = desiredState(inputsOf(node, (key) => used.add(key)));
    const memo: Memo = { digests: state.digests, dependencies: used, valid: true };
    dependents.set(uuid, memos.get(uuid)?.dependencies, used);
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

  /** Stores the views of entries that may run. Entries with a hold keep their view; removed entries are dropped. */
  function remember(uuid: string, state: DesiredState) {
    const views = admitted.get(uuid);
    if (!views) return;
    for (const entry of views.keys()) if (!state.entries.has(entry)) views.delete(entry);
    for (const view of state.microservices) if (!('hold' in view)) views.set(view.uuid, view);
  }

  function drop(uuid: string) {
    dependents.set(uuid, memos.get(uuid)?.dependencies, new Set());
    memos.delete(uuid);
    states.delete(uuid);
    admitted.delete(uuid);
  }

  function invalidate(nodes: ReadonlySet<string>, isContent: boolean) {
    if (nodes.size === 0) return;
    for (const uuid of nodes) {
      const memo = memos.get(uuid);
      if (memo) memo.valid = false;
    }
    for (const listener of listeners) listener(nodes, isContent);
  }

  const subscription = subscribeAffectedNodes(stores, lookups, dependents.of, invalidate);

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
      subscription[Symbol.dispose]();
      listeners.clear();
    },
  };
}
