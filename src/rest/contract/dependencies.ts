import type { ObjectMeta } from '../../api/meta.ts';
import type { ControlPlane } from '../../api/names.ts';
import type { NativeRole, NativeRoleBinding } from '../../api/rbac.ts';
import type { Registry } from '../../api/v3/index.ts';
import type { AuditLog } from '../../datastore/audit-log.ts';
import type { Ids } from '../../datastore/ids.ts';
import type { ProvisioningKeys } from '../../datastore/provisioning-keys.ts';
import type { StoredUsage } from '../../datastore/usage.ts';
import type { References } from '../../datastore/use.ts';
import type { Kind } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import type { Replicas } from '../../replicas/replicas.ts';
import type { Usage } from '../../rules/budget.ts';
import type { Lookups, Observation } from '../../rules/inputs.ts';
import type { Renderer } from '../../rules/renderer.ts';
import type { SubjectNames } from '../../subjects/access/rules/v3-binding.ts';
import type { BusSecretOf, BusTexts } from '../../subjects/bus-accounts/rules/secret.ts';
import type { ConfigMapForm, SecretForm } from '../../subjects/content/rules/core-objects/form.ts';
import type { IndexOf, KindKey, Kinds, ObjectOf } from '../../subjects/kinds.ts';
import type { ProvisionedAgent } from '../../subjects/nodes/rules/observed.ts';
import type { Authenticator, Authorizer, Caller } from './access.ts';
import type { IdentityDoor } from './identity-door.ts';

/** The objects of each kind, by the key of the kind. */
export type KindsObjects = { [K in KindKey]: Objects<ObjectOf<K>, IndexOf<K>> };

/** The dependencies of the REST API. Handlers call these and the domain, and nothing else. */
export interface RestDependencies extends KindsObjects {
  kinds: Kinds;
  /** The references between objects, from the local stores. */
  references: References;
  /** Secrets and ConfigMaps of the v3 API: those with the label skerry.dev/shareable. */
  secrets: Objects<SecretForm>;
  configMaps: Objects<ConfigMapForm>;
  /** Roles and bindings of the cluster, also those that the v3 API does not have; indexes have only objects of the v3 API. */
  roles: Objects<NativeRole, 'name'>;
  roleBindings: Objects<NativeRoleBinding, 'name' | 'role'>;
  /** how users, groups and service accounts are called in bindings */
  subjects: SubjectNames;
  /** The lookups of verdicts, from the local stores. */
  lookups: Lookups;
  registryPasswords: RegistryPasswords;
  ownedSecrets: OwnedSecrets;
  /** keys and tokens of the message bus */
  busSecrets: BusSecretReader;
  provisioningKeys: ProvisioningKeys;
  /** The facts that the agent sent about its machine when it was provisioned; undefined before. */
  provisioning: (nodeUuid: string) => ProvisionedAgent | undefined;
  /** The config that the platform sends to a microservice of the system, or will once its verdict is mended, as JSON text; undefined: the stored one. */
  sentConfig?: ((nodeUuid: string, microserviceUuid: string) => string | undefined) | undefined;
  /** numbers of the v3 API, unique per kind over all replicas */
  ids: Pick<Ids, 'next'>;
  observations: LiveObservations;
  /** the replicas of this controller */
  replicas: Replicas;
  /** What users may store; the objects of kinds are charged to it for one caller (budgets.ts). */
  budgets: WriteBudgets;
  /** who changed what */
  audit: Pick<AuditLog, 'record' | 'read' | 'removeBefore'>;
  readiness: ReadinessCheck;
  /** Replaces the expressions of bodies and templates. */
  templates: Renderer;
  authenticator: Authenticator;
  authorizer: Authorizer;
  /** users, logins and tokens; absent where the process has none */
  identity?: IdentityDoor | undefined;
  /** Facts about this controller that clients read. */
  self: Self;
  clock: WallClock;
}

/** An object of any kind. */
export interface StoredObject {
  metadata: ObjectMeta;
}

/** The objects of a kind of which only the key is known. */
export const objectsByKey = (deps: RestDependencies, key: string): Objects<KindObject> | undefined =>
  (deps as unknown as Record<string, Objects<KindObject> | undefined>)[key];

/** The objects of a kind that is known only at run time. */
export const objectsOf = <T extends KindObject>(deps: RestDependencies, { key }: Kind<T>): Objects<T> =>
  (deps as unknown as Record<string, Objects<T>>)[key] as Objects<T>;

/**
 * The objects of one kind in the controller's namespace. Lists come from the store, which has the writes of this process at
 * once; `read` reads from the API server. Objects are shared: never modify one.
 *
 * Writes fail with `isConflict` of kube when another writer was faster; see edit.ts.
 */
export interface Objects<T extends StoredObject, I extends string = string> {
  /** False until the store has been complete once. */
  readonly synced: boolean;
  list(): readonly T[];
  /** All objects of the store under a key of an index. */
  find(index: I, key: string): readonly T[];
  /** The present object from the API server, by object name. */
  read(name: string, signal: AbortSignal): Promise<T | undefined>;
  /** The present objects from the API server with this name in the spec or this uuid in a label. For misses of `find`. */
  select(field: 'name' | 'uuid', value: string, signal: AbortSignal): Promise<readonly T[]>;
  /**
   * Updates the store to a state that is not older than this call: one live LIST for all waiting callers, at most one a
   * second. For misses of `find`.
   */
  refresh(signal: AbortSignal): Promise<void>;
  create(object: T, signal: AbortSignal): Promise<T>;
  /** Replaces the object on condition of its resourceVersion. */
  replace(object: T, signal: AbortSignal): Promise<T>;
  /**
   * Deletes exactly this object, not another with its name, created later. Absence is no error. `ifUnchanged`: throws a conflict
   * when it has changed since it was read.
   */
  delete(object: T, signal: AbortSignal, options?: { ifUnchanged?: boolean }): Promise<void>;
  /** Waits until the store no longer has exactly this object; false when that takes longer than `ms`. */
  untilGone(object: T, ms: number, signal: AbortSignal): Promise<boolean>;
}

/** Passwords are in Secrets that the registry owns, never in its spec. */
export interface RegistryPasswords {
  read(registry: Registry, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Stores the password for the destination of this registry, in addition to the one that the registry refers to now, and
   * resolves with the reference. It takes effect when the registry refers to it. The registry must exist, since it owns
   * the Secret.
   */
  write(registry: Registry, password: string, signal: AbortSignal): Promise<{ name: string; key: string }>;
  /** Removes the password that the registry refers to. */
  remove(registry: Registry, signal: AbortSignal): Promise<void>;
}

/** Secrets that the leader makes for an object. */
interface OwnedSecrets {
  /** The texts of a Secret that this object owns; undefined when there is none, or it belongs to something else. */
  read(owner: StoredObject, name: string, signal: AbortSignal): Promise<Readonly<Record<string, string>> | undefined>;
}

/** Secrets of the message bus, as the local store has them. */
export interface BusSecretReader {
  /** The texts of a Secret; none when there is none, or something else has its name. */
  read(of: BusSecretOf, name: string): BusTexts;
  /** The same, once there is a token in it, or after `ms`. */
  whenSigned(of: BusSecretOf, name: string, ms: number, signal: AbortSignal): Promise<BusTexts>;
}

/** Live measurements, which only the leader has. */
export interface LiveObservations {
  /** By node uuid. Never rejects: observations that do not arrive in time are absent, and reads use the status instead. */
  of(nodeUuids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Observation>>;
  /** Unix ms since when observations are collected: an absent contact before that does not mean that a node is silent. */
  listeningSince(): number;
}

export interface ReadinessCheck {
  /** The first dependency that is not ready, or undefined. Must be fast. */
  check(signal: AbortSignal): Promise<NotReady | undefined>;
}

interface NotReady {
  code: 'CONTROLLER_DB_BUSY' | 'CONTROLLER_DB_UNAVAILABLE' | 'CONTROLLER_NOT_READY';
  message: string;
}

export interface Self {
  /** Version of the controller. */
  version: string;
  /** Base64 PEM of the CA of the controller's certificate; empty when there is none or it is public. */
  caCert: () => string;
  /** where agents find releases of themselves; absent: they cannot be upgraded */
  releasesUrl?: string | undefined;
  controlPlane: ControlPlane;
  /** whether there is a message bus */
  isBusEnabled?: boolean;
  /** whether routers and services act */
  hasRouters?: boolean;
}

/** Unix milliseconds. */
type WallClock = () => number;

/** Budgets of stored bytes, at the doors of the REST facade. */
export interface WriteBudgets {
  /**
   * Waits for nothing but the permission to use the reserve, and throws 413 (BUDGET_EXCEEDED) when the write exceeds a budget, 429 when the
   * user writes too much. What is reserved counts until the result is disposed, which is after the store has the object.
   */
  reserve(caller: Caller, write: { usage: Usage; growth: Usage; ofUser: Usage }): Promise<Disposable>;
  usage: StoredUsage;
}
