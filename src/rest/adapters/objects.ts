import { FIELD_MANAGERS, LABELS } from '../../api/names.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { compareResourceVersions, type KubeObject, type Resource } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import type { Objects } from '../dependencies.ts';
import { untilGone } from './gone.ts';
import { createRefresh } from './refresh.ts';

export interface ObjectsOptions<T extends KubeObject> {
  client: KubeClient;
  resource: Resource<T>;
  /** Follows the resource in this namespace and declares the indexes of REST_INDEXES. */
  store: Store<T>;
  namespace: string;
  /** Whether the CRD can select objects by these fields; without, everything is looked through. */
  selectable?: readonly ('name' | 'uuid')[];
}

const fieldManager = FIELD_MANAGERS.rest;

/** The port `Objects` over a store and the API server. */
export function createObjects<T extends KubeObject, I extends string>(options: ObjectsOptions<T>): Objects<T, I> {
  const { client, resource, store, namespace, selectable = [] } = options;
  const refresh = createRefresh(async () => {
    const { items, resourceVersion } = await client.list(resource, { namespace });
    const listed = new Set(items.map((item) => item.metadata.name));
    for (const item of items) store.observe(item);
    for (const { metadata } of store.list()) {
      const isOlder = (compareResourceVersions(metadata.resourceVersion, resourceVersion) ?? 1) <= 0;
      if (isOlder && !listed.has(metadata.name)) gone(metadata);
    }
  });
  const gone = ({ name, uid }: { name: string; uid?: string }) => {
    if (uid) store.observeGone({ namespace, name }, uid);
  };
  const seen = (object: T): T => {
    store.observe(object);
    return object;
  };

  return {
    get synced() {
      return store.synced;
    },
    list: () => store.list(),
    find: (index, key) => store.byIndex(index, key),
    async read(name, signal) {
      const known = store.get(namespace, name);
      const object = await client.find(resource, { namespace, name }, { signal });
      if (!object && known) gone(known.metadata);
      return object && seen(object);
    },
    async select(field, value, signal) {
      if (!selectable.includes(field)) {
        await refresh(signal);
        return store.list().filter((object) => (object.spec as Record<string, unknown>)[field] === value);
      }
      const { items } = await client.list(resource, {
        namespace,
        ...(field === 'uuid'
          ? { labelSelector: `${LABELS.uuid}=${value}` }
          : { fieldSelector: `spec.${field}=${escaped(value)}` }),
        signal,
      });
      return items.map(seen);
    },
    refresh,
    async create(object, signal) {
      const full = { ...object, metadata: { ...object.metadata, namespace } };
      return seen(await client.create(resource, full, { fieldManager, signal }));
    },
    async replace(object, signal) {
      return seen(await client.replace(resource, object, { fieldManager, signal }));
    },
    async delete(object, signal) {
      const { name, uid } = object.metadata;
      try {
        const { found, object: left } = await client.delete(
          resource,
          { namespace, name },
          { ...(uid && { preconditions: { uid } }), signal },
        );
        if (left) store.observe(left);
        else if (found) gone(object.metadata);
      } catch (error) {
        // Another object has the name by now: ours is gone.
        if (!isConflict(error) && !isNotFound(error)) throw error;
        gone(object.metadata);
      }
    },
    untilGone: (object, ms, signal) => untilGone(store, { namespace, ...object.metadata }, ms, signal),
  };
}

/** Selectors have their own meaning for backslash, comma and equals sign. */
const escaped = (value: string) => value.replaceAll(/[\\,=]/g, '\\$&');
