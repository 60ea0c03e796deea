import { randomUUID } from 'node:crypto';
import type { Stores } from '../src/datastore/stores.ts';
import { equal } from '../src/kube/compare.ts';
import {
  ApiError,
  groupResource,
  type JsonPatchOperation,
  type KubeClient,
  type KubeObject,
  type ListOptions,
  type ObjectRef,
  type Patch,
  type Resource,
} from '../src/kube/mod.ts';
import type { MutableStore } from '../src/kube/store.ts';
import type { WatchOptions } from '../src/kube/watch-stream.ts';

/** An API server in memory that shows each write in the stores at once. */
export interface InMemoryApiServer {
  client: KubeClient;
  /** Writes so far, by verb and resource. */
  writes: Map<string, number>;
  /** A write of another client. */
  edit<T extends KubeObject>(object: T, change: (copy: T) => void): T;
}

/**
 * Supports resource versions, generations, merge and JSON patches, finalizers and preconditions, and nothing else; an apply merges. `isCounted`
 * selects the objects whose writes are counted.
 */
export function createInMemoryApiServer(
  stores: Stores,
  { isCounted = () => true }: { isCounted?: (ref: ObjectRef) => boolean } = {},
): InMemoryApiServer {
  const writes = new Map<string, number>();
  /** objects of resources without a store */
  const others = new Map<string, KubeObject>();
  let version = 1_000;
  /** Unix ms of the last creation: of two objects one is always older */
  let createdAt = 0;

  const storeOf = ({ plural, group }: Resource) =>
    Object.values(stores).find(({ resource }) => resource.plural === plural && resource.group === group) as unknown as
      | MutableStore<KubeObject>
      | undefined;
  const keyIn = (resource: Resource, { namespace, name }: ObjectRef) =>
    `${groupResource(resource)}/${namespace}/${name}`;
  const read = (resource: Resource, ref: ObjectRef) =>
    storeOf(resource)?.get(ref.namespace, ref.name) ?? others.get(keyIn(resource, ref));

  function put(resource: Resource, object: KubeObject): KubeObject {
    const { metadata } = object;
    metadata.resourceVersion = String(++version);
    const store = storeOf(resource);
    if (metadata.deletionTimestamp && !metadata.finalizers?.length) {
      if (store) store.remove(object);
      else others.delete(keyIn(resource, metadata));
    } else if (store) store.set(object);
    else others.set(keyIn(resource, metadata), object);
    return structuredClone(object);
  }

  function write(
    verb: string,
    resource: Resource,
    ref: ObjectRef,
    subresource: string,
    next: (old: KubeObject) => KubeObject,
  ) {
    const known = read(resource, ref);
    if (!known) throw new ApiError(404, { reason: 'NotFound' }, `${verb} ${ref.name}`);
    // Objects of stores are immutable.
    const before = known;
    const after = next(structuredClone(known));
    const { uid = before.metadata.uid, resourceVersion = before.metadata.resourceVersion } = after.metadata;
    if (uid !== before.metadata.uid || resourceVersion !== before.metadata.resourceVersion)
      throw new ApiError(409, { reason: 'Conflict' }, `${verb} ${ref.name}`);
    const kept: KubeObject = {
      ...(subresource ? { ...before, status: after.status } : { ...after, status: before.status }),
      metadata: { ...(subresource ? before : after).metadata },
    };
    if (equal(kept, before)) return structuredClone(before);
    count(verb, resource, ref, subresource);
    kept.metadata.generation = (before.metadata.generation ?? 1) + (equal(kept.spec, before.spec) ? 0 : 1);
    return put(resource, kept);
  }

  function count(verb: string, resource: Resource, ref: ObjectRef, subresource = '') {
    if (!isCounted(ref)) return;
    const kind = `${verb} ${resource.plural}${subresource && `/${subresource}`}`;
    writes.set(kind, (writes.get(kind) ?? 0) + 1);
  }

  const withoutStore = (resource: Resource) =>
    [...others].flatMap(([key, object]) => (key.startsWith(`${groupResource(resource)}/`) ? [object] : []));
  const list = async (resource: Resource, { namespace }: ListOptions = {}) => {
    const all = storeOf(resource)?.list() ?? withoutStore(resource);
    const items = [...all].filter(({ metadata }) => namespace === undefined || metadata.namespace === namespace);
    return { items: structuredClone(items), resourceVersion: String(version) };
  };

  const client = {
    find: async (resource: Resource, ref: ObjectRef) => structuredClone(read(resource, ref)),
    async get(resource: Resource, ref: ObjectRef) {
      const found = read(resource, ref);
      if (!found) throw new ApiError(404, { reason: 'NotFound' }, `get ${ref.name}`);
      return structuredClone(found);
    },
    list,
    listPage: list,
    async create(resource: Resource, object: KubeObject) {
      if (read(resource, object.metadata)) throw new ApiError(409, { reason: 'AlreadyExists' }, 'create');
      count('create', resource, object.metadata);
      createdAt = Math.max(Date.now(), createdAt + 1);
      const creationTimestamp = new Date(createdAt).toISOString();
      const metadata = { uid: randomUUID(), generation: 1, creationTimestamp, ...structuredClone(object.metadata) };
      return put(resource, { ...structuredClone(object), metadata });
    },
    replace: async (resource: Resource, object: KubeObject, { subresource = '' } = {}) =>
      write('replace', resource, object.metadata, subresource, () => structuredClone(object)),
    patch: async (resource: Resource, ref: ObjectRef, patch: Patch, { subresource = '' } = {}): Promise<KubeObject> =>
      patch.type === 'apply' && !read(resource, ref)
        ? client.create(resource, patch.body as KubeObject)
        : write('patch', resource, ref, subresource, (old) =>
            patch.type === 'json' ? jsonPatched(old, patch.body) : (merged(old, patch.body) as KubeObject),
          ),
    async delete(resource: Resource, ref: ObjectRef) {
      const known = read(resource, ref);
      if (!known) return { found: false };
      count('delete', resource, ref);
      const metadata = { ...known.metadata, deletionTimestamp: new Date().toISOString() };
      const object = put(resource, { ...structuredClone(known), metadata });
      return { found: true, ...(metadata.finalizers?.length && { object }) };
    },
    /** The objects that exist; later writes are in the stores without an event. */
    async *watch(resource: Resource, { signal, onOpen }: WatchOptions = {}) {
      onOpen?.();
      const { items, resourceVersion } = await list(resource);
      for (const object of items) yield { type: 'ADDED', object };
      const annotations = { 'k8s.io/initial-events-end': 'true' };
      yield { type: 'BOOKMARK', object: { metadata: { name: '', resourceVersion, annotations } } };
      await new Promise((resolve) => signal?.addEventListener('abort', resolve, { once: true }));
    },
    request: async () => ({ status: { userInfo: { username: 'admin' } } }),
    observeWrites: () => ({ [Symbol.dispose]: () => {} }),
    fenced: () => client,
    [Symbol.asyncDispose]: async () => {},
  } as unknown as KubeClient;

  return {
    client,
    writes,
    edit(object, change) {
      const copy = structuredClone(object);
      change(copy);
      const resource = Object.values(stores).find(({ resource }) => resource.kind === object.kind)
        ?.resource as Resource;
      return write('edit', resource, object.metadata, '', () => copy) as typeof object;
    },
  };
}

/** RFC 7386. */
function merged(target: unknown, patch: unknown): unknown {
  if (patch === null || typeof patch !== 'object' || Array.isArray(patch)) return patch;
  const result = { ...(typeof target === 'object' && !Array.isArray(target) ? target : {}) } as Record<string, unknown>;
  for (const [key, value] of Object.entries(patch)) {
    if (value === undefined) continue;
    if (value === null) delete result[key];
    else result[key] = merged(result[key], value);
  }
  return result;
}

/** RFC 6902, as far as finalizers need it. */
function jsonPatched(object: KubeObject, operations: readonly JsonPatchOperation[]): KubeObject {
  for (const { op, path, value } of operations) {
    const parts = path.split('/').slice(1);
    const last = parts.pop() as string;
    const parent = parts.reduce((at, part) => (at as Record<string, unknown>)[part], object as unknown);
    const at = parent as Record<string, unknown>;
    if (op === 'test' && !equal(at[last] ?? null, value))
      throw new ApiError(422, { reason: 'Invalid' }, `test ${path}`);
    if (op === 'remove' && Array.isArray(parent)) parent.splice(Number(last), 1);
    else if (op === 'remove') delete at[last];
    else if (op === 'add' && Array.isArray(parent)) parent.push(value);
    else if (op === 'add') at[last] = value;
  }
  return object;
}
