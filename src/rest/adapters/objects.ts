import { FIELD_MANAGERS, LABELS } from '../../api/names.ts';
import type { Kind, KindObject } from '../../kinds/index.ts';
import { isConflict, isNotFound } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { compareResourceVersions } from '../../kube/object.ts';
import type { Store } from '../../kube/store.ts';
import type { Objects } from '../dependencies.ts';
import { untilGone } from './gone.ts';
import { createRefresh } from './refresh.ts';

export interface ObjectsOptions<T extends KindObject> {
  client: KubeClient;
  kind: Kind<T>;
  /** Follows the kind in this namespace. */
  store: Store<T>;
  namespace: string;
}

const fieldManager = FIELD_MANAGERS.rest;

/** The objects of a kind, over its store and the API server. */
export function createObjects<T extends KindObject>(options: ObjectsOptions<T>): Objects<T> {
  const { client, kind, store, namespace } = options;
  const { resource } = kind;
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
      if (!isSelectable(kind, field)) {
        await refresh(signal);
        return store.list().filter(({ spec }) => spec[field] === value);
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
        // Another object has the name now: the object is gone.
        if (!isConflict(error) && !isNotFound(error)) throw error;
        gone(object.metadata);
      }
    },
    untilGone: (object, ms, signal) => untilGone(store, { namespace, ...object.metadata }, ms, signal),
  };
}

/** Whether the API server can select the objects of a kind: by the label of the uuid, by the name in the spec. */
const isSelectable = ({ identity, definition }: Kind, field: 'name' | 'uuid'): boolean =>
  field === 'uuid' ? identity.uuid !== undefined : definition.selectableFields.includes('.spec.name');

/** Selectors have their own meaning for backslash, comma and equals sign. */
const escaped = (value: string) => value.replaceAll(/[\\,=]/g, '\\$&');
