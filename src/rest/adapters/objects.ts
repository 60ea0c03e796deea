import { FIELD_MANAGERS, LABELS } from '../../api/names.ts';
import type { ResourceOf } from '../../api/resources.ts';
import type { Kind } from '../../kinds/definition.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { compareResourceVersions, type KubeObject } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import type { Objects } from '../contract/dependencies.ts';
import { untilGone } from './gone.ts';
import { createRefresh } from './refresh.ts';

type Named = KubeObject & { spec?: { name?: string; uuid?: string } };

export interface ObjectsOptions<T extends Named> {
  client: KubeClient;
  resource: ResourceOf<T>;
  /** What the API server can select; other objects are found in a list of all. */
  selects?: Readonly<Record<'name' | 'uuid', boolean>>;
  /** Limits lists to some objects, where the store has others as well. */
  only?: { labelSelector: string; has: (object: T) => boolean };
  /** Follows the resource in this namespace. */
  store: Store<T>;
  namespace: string;
}

const fieldManager = FIELD_MANAGERS.rest;

/** The objects of a resource, over its store and the API server. */
export function createObjects<T extends Named>(options: ObjectsOptions<T>): Objects<T> {
  const { client, resource, selects, only, store, namespace } = options;
  const refresh = createRefresh(async () => {
    const { items, resourceVersion } = await client.list(resource, {
      namespace,
      ...(only && { labelSelector: only.labelSelector }),
    });
    const listed = new Set(items.map((item) => item.metadata.name));
    for (const item of items) store.observe(item);
    for (const object of store.list()) {
      if (only && !only.has(object)) continue;
      const { metadata } = object;
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
      // What was computed of the stored object, such as uuids, is found again by it and not by a copy.
      const stored = object && store.get(namespace, name);
      return object && (stored && isSameState(stored, object) ? stored : seen(object));
    },
    async select(field, value, signal) {
      if (!selects?.[field]) {
        await refresh(signal);
        return store.byIndex(field, value);
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
    async delete(object, signal, { ifUnchanged = false } = {}) {
      const { name, uid, resourceVersion } = object.metadata;
      const preconditions = { ...(uid && { uid }), ...(ifUnchanged && resourceVersion && { resourceVersion }) };
      try {
        const { found, object: left } = await client.delete(resource, { namespace, name }, { preconditions, signal });
        if (left) store.observe(left);
        else if (found) gone(object.metadata);
      } catch (error) {
        const now = ifUnchanged && isConflict(error) && (await client.find(resource, { namespace, name }, { signal }));
        if (now && now.metadata.uid === uid) throw error;
        // Another object has the name now: the object is gone.
        if (!isConflict(error) && !isNotFound(error)) throw error;
        gone(object.metadata);
      }
    },
    untilGone: (object, ms, signal) => untilGone(store, { namespace, ...object.metadata }, ms, signal),
  };
}

const isSameState = ({ metadata: a }: KubeObject, { metadata: b }: KubeObject) =>
  a.uid === b.uid && a.resourceVersion !== undefined && a.resourceVersion === b.resourceVersion;

/** What the API server can select of the objects of a kind: the label of the uuid, the name in the spec. */
export const selectorsOf = ({ identity, definition }: Kind): Record<'name' | 'uuid', boolean> => ({
  uuid: identity.uuid !== undefined,
  name: definition.selectableFields.includes('.spec.name'),
});

/** Selectors have their own meaning for backslash, comma and equals sign. */
const escaped = (value: string) => value.replaceAll(/[\\,=]/g, '\\$&');
