import type { KubeObject, MutableStore } from '../kube/mod.ts';
import { countsForNobody, NO_USAGE, storedBy, storedBytes, sumOf, type Usage, usageOf } from '../rules/budget.ts';

/** What users store, in sums that each change of a store adds to: a read costs nothing, whatever is stored. */
export interface StoredUsage extends Disposable {
  readonly installation: Usage;
  /** By the name of a user as objects have it. */
  of(user: string): Usage;
  /** What the object counts for, and whom, by the key of its store. Undefined when the store does not have it. */
  find(store: string, namespace: string, name: string): { bytes: number; user: string | undefined } | undefined;
  /** Bytes of all objects by their kind, those of the system included. */
  bytesByKind(): ReadonlyMap<string, number>;
}

/** Stores whose objects are Secrets and ConfigMaps. */
export const CONTENT: ReadonlySet<string> = new Set(['secrets', 'configMaps']);

interface Entry {
  bytes: number;
  user: string | undefined;
  /** nothing for objects of the system */
  usage: Usage;
}

/** Follows the stores; `stores` by key. */
export function trackUsage(stores: Readonly<Record<string, MutableStore<KubeObject>>>): StoredUsage {
  let installation = NO_USAGE;
  const users = new Map<string, Usage>();
  const byKind = new Map<string, number>();
  const entries = new Map<string, Map<string, Entry>>();
  const subscriptions = new DisposableStack();

  function add({ user, usage, bytes }: Entry, kind: string, factor: 1 | -1) {
    installation = sumOf(installation, usage, factor);
    byKind.set(kind, (byKind.get(kind) ?? 0) + factor * bytes);
    if (user === undefined) return;
    const sum = sumOf(users.get(user) ?? NO_USAGE, usage, factor);
    if (sum.count === 0) users.delete(user);
    else users.set(user, sum);
  }

  for (const [key, store] of Object.entries(stores)) {
    const { kind } = store.resource;
    const isContent = CONTENT.has(key);
    const known = new Map<string, Entry>();
    entries.set(key, known);
    const change = (name: string, object: KubeObject | undefined) => {
      const before = known.get(name);
      if (before) add(before, kind, -1);
      known.delete(name);
      if (!object) return;
      const bytes = storedBytes(object);
      const usage = isContent && countsForNobody(object, bytes) ? NO_USAGE : usageOf(isContent, bytes);
      const entry = { bytes, user: usage === NO_USAGE ? undefined : storedBy(object), usage };
      known.set(name, entry);
      add(entry, kind, 1);
    };
    for (const object of store.list()) change(`${object.metadata.namespace}/${object.metadata.name}`, object);
    subscriptions.use(
      store.subscribe(({ type, object }) =>
        change(`${object.metadata.namespace}/${object.metadata.name}`, type === 'set' ? object : undefined),
      ),
    );
  }

  return {
    get installation() {
      return installation;
    },
    of: (user) => users.get(user) ?? NO_USAGE,
    find: (store, namespace, name) => entries.get(store)?.get(`${namespace}/${name}`),
    bytesByKind: () => byKind,
    [Symbol.dispose]: () => subscriptions.dispose(),
  };
}
