import type { ObjectMeta } from '../api/meta.ts';
import type { EdgeNode, Registry } from '../api/v3/index.ts';
import type { Provisioning } from '../domain/edge-node/read.ts';
import type { Lookups, Observation } from '../domain/inputs.ts';
import type { IndexOf, Kind, KindKey, KindObject, Kinds, ObjectOf } from '../kinds/index.ts';
import type { References } from '../stores/use.ts';
import type { Authenticator, Authorizer } from './access/access.ts';

/** The objects of each kind, by the key of the kind. */
export type KindsObjects = { [K in KindKey]: Objects<ObjectOf<K>, IndexOf<K>> };

/** The dependencies of the REST API. Handlers call these and the domain, and nothing else. */
export interface RestDependencies extends KindsObjects {
  kinds: Kinds;
  /** Who names whom, from the local stores. */
  references: References;
  shared: Shared;
  /** What verdicts look at, from the local views. */
  lookups: Lookups;
  registryPasswords: RegistryPasswords;
  provisioningKeys: ProvisioningKeys;
  /** What the agent reported of its machine when it was provisioned; undefined while there is none. */
  provisioning: (nodeUuid: string) => Provisioning | undefined;
  ids: Ids;
  observations: Observations;
  readiness: Readiness;
  authenticator: Authenticator;
  authorizer: Authorizer;
  /** Facts about this controller that clients read. */
  self: Self;
  clock: WallClock;
}

/** Any object of ours: metadata and the rest. */
export interface StoredObject {
  metadata: ObjectMeta;
}

/** The objects of a kind that is known only when the program runs. */
export const objectsOf = <T extends KindObject>(deps: RestDependencies, { key }: Kind<T>): Objects<T> =>
  (deps as unknown as Record<string, Objects<T>>)[key] as Objects<T>;

/**
 * The objects of one kind in the controller's namespace. Lists come from a local view that follows the API server and
 * shows this process's own writes at once; `read` asks the API server. Objects are shared: never change one.
 *
 * Writes fail with `isConflict` of kube when another writer was faster; see edit.ts.
 */
export interface Objects<T extends StoredObject, I extends string = string> {
  /** False until the local view was complete once. */
  readonly synced: boolean;
  list(): readonly T[];
  /** Everything of the local view under a key of an index. */
  find(index: I, key: string): readonly T[];
  /** The object as the API server has it now, by object name. */
  read(name: string, signal: AbortSignal): Promise<T | undefined>;
  /** Objects with this name in their spec or this uuid in their labels, as the API server has them now. For misses of `find`. */
  select(field: 'name' | 'uuid', value: string, signal: AbortSignal): Promise<readonly T[]>;
  /**
   * Brings the local view to a state that is not older than this call: one live LIST, shared by all callers that wait, at most one
   * a second. For misses of `find`.
   */
  refresh(signal: AbortSignal): Promise<void>;
  create(object: T, signal: AbortSignal): Promise<T>;
  /** Replaces the object on condition of its resourceVersion. */
  replace(object: T, signal: AbortSignal): Promise<T>;
  /** Deletes exactly this object, not one that was created under its name since. Absence is no error. */
  delete(object: T, signal: AbortSignal): Promise<void>;
  /** Waits until the local view no longer has exactly this object; false when that takes longer. */
  untilGone(object: T, ms: number, signal: AbortSignal): Promise<boolean>;
}

/** Secrets and ConfigMaps that microservices may use: those with the label skerry.dev/shareable. */
export interface Shared {
  /** See Objects.refresh. */
  refresh(signal: AbortSignal): Promise<void>;
}

/** Passwords live in Secrets that the registry owns, never in its spec. */
export interface RegistryPasswords {
  read(registry: Registry, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Saves it for this destination, in addition to the one that the registry refers to now, and returns the reference:
   * it takes effect when the registry refers to it. The registry must exist: it owns the Secret.
   */
  write(registry: Registry, password: string, signal: AbortSignal): Promise<{ name: string; key: string }>;
  /** Removes the one that the registry refers to. */
  remove(registry: Registry, signal: AbortSignal): Promise<void>;
}

export interface ProvisioningKeys {
  /** Stores a key that this node can be provisioned with until then; the one before it stops working. */
  issue(node: EdgeNode, key: { key: string; expiresAt: number }, signal: AbortSignal): Promise<void>;
}

/** Numbers of the v3 API, unique per kind over all replicas. */
export interface Ids {
  next(kind: string, signal?: AbortSignal): Promise<number>;
}

/** Live measurements, which only the leader has. */
export interface Observations {
  /** By node uuid. Never rejects: what cannot be had in time is absent, and reads fall back to the status. */
  of(nodeUuids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Observation>>;
  /** Unix ms since when nodes are listened to: silence before it means nothing. */
  listeningSince(): number;
}

export interface Readiness {
  /** The first thing that is not ready, or undefined. Must be quick. */
  check(signal: AbortSignal): Promise<NotReady | undefined>;
}

interface NotReady {
  code: 'CONTROLLER_DB_BUSY' | 'CONTROLLER_DB_UNAVAILABLE' | 'CONTROLLER_NOT_READY';
  message: string;
}

export interface Self {
  /** Version of the controller. */
  version: string;
  /** Base64 PEM of the CA that signs our certificate; empty when there is none or it is public. */
  caCert: () => string;
}

/** Unix milliseconds. */
type WallClock = () => number;
