import type { ConfigMap, Secret } from '../api/resources.ts';
import { RESOURCES } from '../api/resources.ts';
import type { Application, EdgeNode, Registry } from '../api/v3/index.ts';
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
import { INDEXES } from './indexes.ts';

/** The same, for those who only read. */
export type ReadStores = { readonly [K in keyof Stores]: Stores[K] extends MutableStore<infer T> ? Store<T> : never };

/** The local views of everything that is read, one per resource, each with all indexes that any reader needs. */
export interface Stores {
  nodes: MutableStore<EdgeNode>;
  applications: MutableStore<Application>;
  registries: MutableStore<Registry>;
  /** all Secrets of the namespace: node keys, shareable ones, passwords of registries */
  secrets: MutableStore<Secret>;
  configMaps: MutableStore<ConfigMap>;
}

export function createStores({ namespace, log }: { namespace: string; log?: Log }): Stores {
  const store = <T extends KubeObject>(
    resource: Resource<T>,
    indexes: Record<string, (object: T) => Iterable<string>>,
  ) => createStore<T>({ resource, selection: { namespace }, indexes, ...(log && { log }) });
  return {
    nodes: store(RESOURCES.edgeNodes, INDEXES.nodes),
    applications: store(RESOURCES.applications, INDEXES.applications),
    registries: store(RESOURCES.registries, INDEXES.registries),
    secrets: store(RESOURCES.secrets, INDEXES.secrets),
    configMaps: store(RESOURCES.configMaps, INDEXES.configMaps),
  };
}

/** Keeps the views equal to what the API server holds, and shows our own writes in them at once. */
export function followStores(
  stores: Stores,
  options: { client: KubeClient; log?: Log; metrics?: Metrics },
  signal: AbortSignal,
): Reflector<KubeObject>[] {
  const follow = <T extends KubeObject>(store: MutableStore<T>) => {
    options.client.observeWrites(store.resource, store);
    return startReflector<T>({ ...options, store }, signal) as unknown as Reflector<KubeObject>;
  };
  return [
    follow(stores.nodes),
    follow(stores.applications),
    follow(stores.registries),
    follow(stores.secrets),
    follow(stores.configMaps),
  ];
}

export const allSynced = (stores: Stores): boolean =>
  Object.values(stores).every((store: MutableStore<never>) => store.synced);
