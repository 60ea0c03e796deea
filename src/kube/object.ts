/**
 * The shapes every Kubernetes object shares, and how we name one.
 *
 * Wire shapes hold JSON only: timestamps are strings, absent is `undefined`, unknown fields survive a round trip.
 */

/** Standard object metadata, reduced to what controllers read or write. */
export interface ObjectMeta {
  name: string;
  namespace?: string;
  generateName?: string;
  uid?: string;
  resourceVersion?: string;
  generation?: number;
  creationTimestamp?: string;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  finalizers?: string[];
  ownerReferences?: OwnerReference[];
  managedFields?: unknown[];
}

export interface OwnerReference {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
  controller?: boolean;
  blockOwnerDeletion?: boolean;
}

/** Any object of any kind. Concrete kinds narrow `spec` and `status` or add fields (`data` of a ConfigMap). */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: unknown;
  status?: unknown;
}

/** Which object, within a known resource. `namespace` is absent for cluster-scoped ones. */
export interface ObjectRef {
  namespace?: string;
  name: string;
}

/**
 * Where objects of type `T` live in the API. Core resources have the group `''`.
 * `T` is a phantom: any value with these fields can be used as the resource of the type the caller states.
 */
export interface Resource<T extends KubeObject = KubeObject> {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
  /** Never set; carries the type only. */
  readonly _object?: T;
}

/** The `apiVersion` text of a resource: `v1`, `skerry.dev/v3`. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** A short name for logs and metrics: `configmaps`, `edgenodes.skerry.dev`. */
export function nameOf(resource: Resource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** The key of an object in stores and queues: `namespace/name`, or `name` when cluster-scoped. */
export function keyOf(object: { metadata: ObjectRef }): string {
  return keyFor(object.metadata.namespace, object.metadata.name);
}

export function keyFor(namespace: string | undefined, name: string): string {
  return namespace ? `${namespace}/${name}` : name;
}

/** The inverse of {@link keyOf}. Kubernetes names never contain a slash, so the first one splits. */
export function parseKey(key: string): ObjectRef {
  const slash = key.indexOf('/');
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

export function refOf(object: { metadata: ObjectRef }): ObjectRef {
  const { namespace, name } = object.metadata;
  return namespace ? { namespace, name } : { name };
}

/**
 * Whether an answer shows an object that the write itself ended: nothing holds its deletion any more. The API server
 * answers the removal of a last finalizer like that, with the version from before.
 */
export function isEnded({ metadata, spec }: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = metadata;
  // Namespaces are held by finalizers in their spec.
  const held = (finalizers?.length ?? 0) + ((spec as { finalizers?: string[] } | undefined)?.finalizers?.length ?? 0);
  return deletionTimestamp !== undefined && deletionGracePeriodSeconds === 0 && held === 0;
}

/** An owner reference to `owner`, which must have been read from the API (it needs a uid). */
export function ownerReference(owner: KubeObject, options: { controller?: boolean } = {}): OwnerReference {
  const { name, uid } = owner.metadata;
  if (!uid) throw new TypeError(`owner ${owner.kind} ${keyOf(owner)} has no uid`);
  const controller = options.controller ?? true;
  return { apiVersion: owner.apiVersion, kind: owner.kind, name, uid, controller, blockOwnerDeletion: controller };
}

/**
 * Orders two resource versions: negative when `a` is older. Kubernetes declares them comparable for objects of one
 * resource type (1.35, KEP-5504): decimal numbers without leading zeros, of any size, hence length first.
 * `undefined` when either is absent or not such a number; the caller must then trust the server's order of events.
 */
export function compareResourceVersions(a: string | undefined, b: string | undefined): number | undefined {
  if (!isVersion(a) || !isVersion(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

function isVersion(text: string | undefined): text is string {
  return text !== undefined && /^(0|[1-9][0-9]*)$/.test(text);
}
