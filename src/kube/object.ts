/**
 * The types that all Kubernetes objects share, and their keys.
 *
 * The types have JSON values only: timestamps are strings, absent is `undefined`, unknown fields survive a round trip.
 */
import type { ObjectMeta, OwnerReference, ResourceOf } from '../lib/kubernetes-object.ts';

/** An object of any kind. Concrete kinds narrow `spec` and `status` or add fields (`data` of a ConfigMap). */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  spec?: unknown;
  status?: unknown;
}

/** The name of an object of a known resource. `namespace` is absent for cluster-scoped objects. */
export interface ObjectRef {
  namespace?: string;
  name: string;
}

/** The API resource of the objects of type `T`. Core resources have the group `''`. */
export type Resource<T extends KubeObject = KubeObject> = ResourceOf<T>;

/** The `apiVersion` text of a resource: `v1`, `skerry.dev/v3`. */
export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** A short name for logs and metrics: `configmaps`, `edgenodes.skerry.dev`. */
export function groupResource(resource: Resource): string {
  return resource.group === '' ? resource.plural : `${resource.plural}.${resource.group}`;
}

/** The key of an object in stores and queues: `namespace/name`, or `name` when cluster-scoped. */
export function keyOf(object: { metadata: ObjectRef }): string {
  return keyFor(object.metadata.namespace, object.metadata.name);
}

export function keyFor(namespace: string | undefined, name: string): string {
  return namespace ? `${namespace}/${name}` : name;
}

/** The inverse of {@link keyOf}. Kubernetes names never contain a slash, so that the first slash separates the parts. */
export function parseKey(key: string): ObjectRef {
  const slash = key.indexOf('/');
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) };
}

export function refOf(object: { metadata: ObjectRef }): ObjectRef {
  const { namespace, name } = object.metadata;
  return namespace ? { namespace, name } : { name };
}

/**
 * Whether the response to a write shows that the write ended the object: its deletion waits for nothing any more. The API
 * server returns such an object, with its former version, when a write removes the last finalizer.
 */
export function isEnded({ metadata, spec }: KubeObject): boolean {
  const { deletionTimestamp, deletionGracePeriodSeconds, finalizers } = metadata;
  // The deletion of a namespace waits for finalizers in its spec.
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
 * Orders two resource versions: negative when `a` is older. Kubernetes defines them as comparable for objects of one
 * resource type (1.35, KEP-5504): decimal numbers of any size without leading zeros, hence the comparison by length first.
 * `undefined` when either is absent or not such a number; the caller must then rely on the order of the server's events.
 */
export function compareResourceVersions(a: string | undefined, b: string | undefined): number | undefined {
  if (!isVersion(a) || !isVersion(b)) return undefined;
  if (a.length !== b.length) return a.length - b.length;
  return a < b ? -1 : a > b ? 1 : 0;
}

function isVersion(text: string | undefined): text is string {
  return text !== undefined && /^(0|[1-9][0-9]*)$/.test(text);
}
