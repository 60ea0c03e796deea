import { CORE_RESOURCES, type ConfigMap, type Secret } from '../api/resources.ts';
import {
  type ESSENTIAL_KINDS,
  KINDS,
  type Kind,
  type KindKey,
  type KindObject,
  type Kinds,
  type ObjectOf,
} from '../kinds/index.ts';
import {
  createStore,
  type KubeClient,
  type KubeObject,
  type Log,
  type Metrics,
  type MutableStore,
  type Reflector,
  type Resource,
  type Store,
  startReflector,
} from '../kube/mod.ts';
import { CORE_INDEXES, indexesOf } from './indexes.ts';

/** What look-ups read. */
export type ReadStores = {
  readonly [K in keyof EssentialStores]: EssentialStores[K] extends MutableStore<infer T> ? Store<T> : never;
};

type KindStores = { [K in KindKey]: MutableStore<ObjectOf<K>> };

/** The stores of everything that is read, one per resource, each with all indexes that any reader needs. */
export interface Stores extends KindStores {
  /** all Secrets of the namespace: node keys, shareable ones, passwords of registries */
  secrets: MutableStore<Secret>;
  configMaps: MutableStore<ConfigMap>;
}

/** Those that agents depend on. */
export type EssentialStores = Pick<Stores, (typeof ESSENTIAL_KINDS)[number] | 'secrets' | 'configMaps'>;

export interface StoresOptions {
  namespace: string;
  kinds?: Kinds;
  log?: Log;
}

export function createStores({ namespace, kinds = KINDS, log }: StoresOptions): Stores {
  const store = <T extends KubeObject>(
    resource: Resource<T>,
    indexes: Record<string, (object: T) => Iterable<string>>,
  ) => createStore<T>({ resource, selection: { namespace }, indexes, ...(log && { log }) });
  const ofKinds = Object.entries(kinds).map(([key, kind]) => [key, store(kind.resource, indexesOf(kind))]);
  return {
    ...(Object.fromEntries(ofKinds) as KindStores),
    secrets: store(CORE_RESOURCES.secrets, CORE_INDEXES.secrets),
    configMaps: store(CORE_RESOURCES.configMaps, CORE_INDEXES.configMaps),
  };
}

/** The stores that agents depend on: one of another kind that never becomes complete stops no agent. */
export function essentialStores(stores: Stores): EssentialStores {
  const { nodes, applications, registries, secrets, configMaps } = stores;
  return { nodes, applications, registries, secrets, configMaps };
}

/** The store of a kind. */
export const storeOf = <T extends KindObject>(stores: object, { key }: Kind<T>): MutableStore<T> =>
  (stores as Record<string, MutableStore<T>>)[key] as MutableStore<T>;

/** How many objects there are of each kind, as the Kubernetes API calls it. */
export const countObjects = (stores: object, kinds: Kinds): ReadonlyMap<string, number> =>
  new Map(Object.values(kinds).map((kind) => [kind.definition.kind, storeOf(stores, kind).size]));

/** Finds the objects with a number, of a kind as the Kubernetes API calls it. */
export function createIdLookup(stores: object, kinds: Kinds): (kind: string, id: number) => readonly KindObject[] {
  const numbered = new Map(
    Object.values(kinds)
      .filter(({ identity }) => identity.id)
      .map((kind) => [kind.definition.kind, storeOf(stores, kind)]),
  );
  return (kind, id) => numbered.get(kind)?.byIndex('id', String(id)) ?? [];
}

/** Keeps the stores equal to what the API server holds, and shows our own writes in them at once. */
export function followStores(
  stores: Stores,
  options: { client: KubeClient; log?: Log; metrics?: Metrics },
  signal: AbortSignal,
): Reflector<KubeObject>[] {
  return (Object.values(stores) as MutableStore<KubeObject>[]).map((store) => {
    options.client.observeWrites(store.resource, store);
    return startReflector({ ...options, store }, signal);
  });
}

export const allSynced = (stores: EssentialStores): boolean => Object.values(stores).every(({ synced }) => synced);
