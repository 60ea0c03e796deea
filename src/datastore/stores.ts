import { LABELS } from '../api/names.ts';
import { type NativeRole, type NativeRoleBinding, RBAC_RESOURCES } from '../api/rbac.ts';
import { CORE_RESOURCES, type ConfigMap, type Secret } from '../api/resources.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import {
  createStore,
  type KubeClient,
  type KubeMetrics,
  type KubeObject,
  type MutableStore,
  type Reflector,
  type Resource,
  type Selection,
  type Store,
  startReflector,
} from '../kube/mod.ts';
import type { Log } from '../lib/log.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import {
  ESSENTIAL_BUS_KINDS,
  ESSENTIAL_KINDS,
  ESSENTIAL_ROUTER_KINDS,
  KINDS,
  type KindKey,
  type Kinds,
  type ObjectOf,
} from '../subjects/kinds.ts';
import { CORE_INDEXES, indexesOf, RBAC_INDEXES } from './indexes.ts';

/** The stores that lookups, desired states and the authentication of agents read. */
export type ReadStores = {
  readonly [K in keyof EssentialStores | SwitchedKind]: Stores[K] extends MutableStore<infer T> ? Store<T> : never;
};
type SwitchedKind = (typeof ESSENTIAL_BUS_KINDS | typeof ESSENTIAL_ROUTER_KINDS)[number];

type KindStores = { [K in KindKey]: MutableStore<ObjectOf<K>> };

/** All stores, one per resource, each with all indexes that any reader needs. */
export interface Stores extends KindStores {
  /** all Secrets of the namespace: node keys, shareable ones, passwords of registries */
  secrets: MutableStore<Secret>;
  configMaps: MutableStore<ConfigMap>;
  /** all Roles and RoleBindings of the namespace: roles of the v3 API, and roles of the installation */
  roles: MutableStore<NativeRole>;
  roleBindings: MutableStore<NativeRoleBinding>;
}

/** The stores that agents depend on. */
export type EssentialStores = Pick<Stores, (typeof ESSENTIAL_KINDS)[number] | 'secrets' | 'configMaps' | 'roles'>;

export interface StoresOptions {
  namespace: string;
  kinds?: Kinds;
  log?: Log;
}

export function createStores({ namespace, kinds = KINDS, log }: StoresOptions): Stores {
  const store = <T extends KubeObject>(
    resource: Resource<T>,
    indexes: Record<string, (object: T) => Iterable<string>>,
    selection: Omit<Selection, 'namespace'> = {},
  ) => createStore<T>({ resource, selection: { namespace, ...selection }, indexes, ...(log && { log }) });
  const ofKinds = Object.entries(kinds).map(([key, kind]) => [key, store(kind.resource, indexesOf(kind))]);
  return {
    ...(Object.fromEntries(ofKinds) as KindStores),
    // The audit log changes every few seconds, and Secrets of users at each login: nothing that agents wait for is computed from them.
    secrets: store(CORE_RESOURCES.secrets, CORE_INDEXES.secrets, { withoutLabels: [LABELS.auditLog, LABELS.identity] }),
    configMaps: store(CORE_RESOURCES.configMaps, CORE_INDEXES.configMaps),
    roles: store(RBAC_RESOURCES.roles, RBAC_INDEXES.roles),
    roleBindings: store(RBAC_RESOURCES.roleBindings, RBAC_INDEXES.roleBindings),
  };
}

/**
 * The stores that agents depend on, of the message bus and of routers while they are on. A store of another kind that never syncs does not affect
 * agents, such as of a kind whose CRD an upgrade has not brought yet.
 */
export function essentialStores<T extends ReadStores>(
  stores: T,
  { isBusEnabled, hasRouters }: { isBusEnabled?: boolean | undefined; hasRouters?: boolean | undefined },
): Pick<T, keyof EssentialStores> & Partial<Pick<T, SwitchedKind>> {
  const switched = [...(isBusEnabled ? ESSENTIAL_BUS_KINDS : []), ...(hasRouters ? ESSENTIAL_ROUTER_KINDS : [])];
  const keys = [...ESSENTIAL_KINDS, ...switched, 'secrets', 'configMaps', 'roles'] as const;
  return Object.fromEntries(keys.map((key) => [key, stores[key]])) as ReturnType<typeof essentialStores<T>>;
}

/** All stores by their key, whatever their objects are. */
export const byKey = (stores: Stores): Readonly<Record<string, MutableStore<KubeObject>>> =>
  stores as unknown as Record<string, MutableStore<KubeObject>>;

/** The store of a kind. */
export const storeOf = <T extends KindObject>(stores: object, { key }: Kind<T>): MutableStore<T> =>
  (stores as Record<string, MutableStore<T>>)[key] as MutableStore<T>;

/** The number of objects of each kind, by its name in the Kubernetes API. */
export const countObjects = (stores: object, kinds: Kinds): ReadonlyMap<string, number> =>
  new Map(Object.values(kinds).map((kind) => [kind.definition.kind, storeOf(stores, kind).size]));

/** Finds the objects of a kind, by its name in the Kubernetes API, that have a number. */
export function createIdLookup(stores: object, kinds: Kinds): (kind: string, id: number) => readonly KindObject[] {
  const numbered = new Map(
    [...Object.values(kinds), ...(Object.values(CORE_KINDS) as Kind[])]
      .filter(({ identity }) => identity.id)
      .map((kind) => [kind.definition.kind, storeOf(stores, kind)]),
  );
  return (kind, id) => numbered.get(kind)?.byIndex('id', String(id)) ?? [];
}

/** Keeps the stores equal to the objects of the API server, and applies our own writes to them at once. */
export function followStores(
  stores: Stores,
  options: { client: KubeClient; log?: Log; metrics?: KubeMetrics },
  signal: AbortSignal,
): Reflector<KubeObject>[] {
  return (Object.values(stores) as MutableStore<KubeObject>[]).map((store) => {
    options.client.observeWrites(store.resource, store);
    return startReflector({ ...options, store }, signal);
  });
}

export const allSynced = (stores: EssentialStores): boolean => Object.values(stores).every(({ synced }) => synced);
