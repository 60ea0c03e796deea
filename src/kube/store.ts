/**
 * A store of objects in memory. Objects, indexes, own writes and subscribers change in one step, which no reader may see
 * half done.
 */

import { type Log, silentLog } from '../lib/log.ts';
import { compareResourceVersions, type KubeObject, keyFor, keyOf, type ObjectRef, type Resource } from './object.ts';

/** The objects of a resource that a store has. The reflector makes its queries from it. */
export interface Selection {
  /** All namespaces when absent. */
  readonly namespace?: string;
  /** Objects that have all of these labels with these values. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Objects that have none of these labels, whatever the value. */
  readonly withoutLabels?: readonly string[];
  /** One object by name. */
  readonly name?: string;
  /** The API server sends the metadata of the objects alone. */
  readonly metadataOnly?: boolean;
}

/** A selection as the query of a list or watch. */
export function selectionQuery({ namespace, labels = {}, withoutLabels = [], name, metadataOnly }: Selection) {
  const pairs = [
    ...Object.entries(labels).map(([key, value]) => `${key}=${value}`),
    ...withoutLabels.map((key) => `!${key}`),
  ];
  return {
    ...(namespace === undefined ? {} : { namespace }),
    ...(pairs.length === 0 ? {} : { labelSelector: pairs.sort().join(',') }),
    ...(name === undefined ? {} : { fieldSelector: `metadata.name=${name}` }),
    ...(metadataOnly ? { metadataOnly } : {}),
  };
}

/** Whether a selection includes an object, by the rules of the API server. */
export function selects(selection: Selection, { metadata }: KubeObject): boolean {
  const { namespace, labels = {}, withoutLabels = [], name } = selection;
  if (namespace !== undefined && metadata.namespace !== namespace) return false;
  if (name !== undefined && metadata.name !== name) return false;
  if (withoutLabels.some((key) => metadata.labels?.[key] !== undefined)) return false;
  return Object.entries(labels).every(([key, value]) => metadata.labels?.[key] === value);
}

/** `initial` marks objects of the first list; the `object` of a delete is its last state. */
export type Change<T> =
  | { type: 'set'; key: string; object: T; previous?: T; initial: boolean }
  | { type: 'delete'; key: string; object: T; previous: T; initial: boolean };

export interface StoreOptions<T extends KubeObject> {
  resource: Resource<T>;
  selection?: Selection;
  /** By index name, a pure function from an object to its keys for {@link Store.byIndex}. */
  indexes?: Record<string, (object: T) => Iterable<string>>;
  /** Deep-freezes stored objects, so that code which modifies one throws. Default: true when NODE_ENV is `test`. */
  freeze?: boolean;
  log?: Log;
}

/**
 * A local, indexed, read-only copy of the objects of one resource.
 *
 * - Objects are shared: never modify one.
 * - A read never returns an older state of an object after a newer one. It returns own writes as soon as the promise of the
 *   write has resolved, if the store observes the client: `client.observeWrites(resource, store)`.
 * - Until a new list is complete, reads return the state before it; the list replaces the content in one step.
 * - An object that was deleted and created again with the same name is reported as a delete and a set.
 */
export interface Store<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly selection: Selection;
  get(namespace: string | undefined, name: string): T | undefined;
  getByKey(key: string): T | undefined;
  /** All objects in no particular order; the same array until an object changes. */
  list(): readonly T[];
  /** The objects under a key, in no particular order. Throws for an index that was not declared. */
  byIndex(index: string, key: string): readonly T[];
  /** At most so many objects under a key, in the order in which they got the key: a change of an object does not move it. */
  firstByIndex(index: string, key: string, count: number): readonly T[];
  /** The number of objects that {@link byIndex} returns, in constant time. */
  countByIndex(index: string, key: string): number;
  readonly size: number;
  /** True after the first complete list, also when the content is out of date later. */
  readonly synced: boolean;
  /** Resolves when synced; rejects with the reason of the signal. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** The listener is called synchronously after each change of the whole store. It must be fast and must not throw. */
  subscribe(listener: (change: Change<T>) => void): Disposable;
  /**
   * The newest resource version of all objects that are or were in the store; a deletion with an unknown version counts
   * with the version of the object's last state.
   */
  readonly latest: string | undefined;
  /** The store has all changes up to this resource version. */
  readonly seenTo: string | undefined;
  /** Grows with every change. Equal versions mean equal content, so that it can be the key of a cache. */
  readonly version: number;
  /** The number of complete lists so far. When it differs, changes may not have been reported one by one. */
  readonly lists: number;
  /** The version of the store at the last change of this object; 0 when the object is absent. */
  versionOf(namespace: string | undefined, name: string): number;
  /** The version of the store at the last change of an object under this index key; 0 when there is none. */
  indexVersion(index: string, key: string): number;
  /** Adds a state of an object from a response of the API server. Ignored unless it is newer than the known state. */
  observe(object: T): void;
  /** Removes an object that is gone according to a response of the API server. */
  observeGone(ref: ObjectRef, uid: string): void;
}

/** A store with the methods that a reflector calls. */
export interface MutableStore<T extends KubeObject> extends Store<T> {
  /** ADDED or MODIFIED from the watch. */
  set(object: T): void;
  /** DELETED from the watch: the last state of the object, with the resource version of the deletion. */
  remove(object: T): void;
  /** The reflector has seen all changes up to this version. */
  progress(resourceVersion: string): void;
  /** The next list comes from a datastore that was restored: known versions cannot be compared with those of the list. */
  distrust(): void;
  /** Replaces the content by a complete list as of `resourceVersion`. */
  swap(objects: Iterable<T>, resourceVersion: string): void;
}

export function createStore<T extends KubeObject>(options: StoreOptions<T>): MutableStore<T> {
  return new MemoryStore(options);
}

/** Limit of remembered deletions; far more than ever wait for their event. */
const GONE_LIMIT = 10_000;

interface Entry<T> {
  readonly object: T;
  readonly version: number;
}

interface Bucket<T> {
  readonly objects: Map<string, T>;
  version: number;
}

interface Index<T> {
  readonly keysOf: (object: T) => Iterable<string>;
  readonly buckets: Map<string, Bucket<T>>;
}

/**
 * Reads never go back: every update (from watch, list or own write) compares its resource version with that of the entry.
 * When there is no entry, three members prevent that an older state is added:
 * - `#progress`: the watch has sent everything up to this version, so that an observed state at or below it is outdated
 * - `#gone`: uids of deleted objects of which the watch may still send older states
 * - `#floors`: for a key whose entry was dropped before its event came, the last version of the entry; states at or below
 *   it are outdated, until the watch has passed it
 */
class MemoryStore<T extends KubeObject> implements MutableStore<T> {
  readonly resource: Resource<T>;
  readonly selection: Selection;
  readonly #entries = new Map<string, Entry<T>>();
  readonly #indexes = new Map<string, Index<T>>();
  readonly #listeners = new Set<(change: Change<T>) => void>();
  readonly #gone = new Set<string>();
  readonly #floors = new Map<string, string | undefined>();
  readonly #freeze: boolean;
  readonly #log: Log;
  #progress: string | undefined;
  #latest: string | undefined;
  #version = 0;
  #lists = 0;
  #distrusted = false;
  #list: readonly T[] | undefined;
  #synced = Promise.withResolvers<void>();
  #isSynced = false;

  constructor({ resource, selection = {}, indexes = {}, freeze, log = silentLog }: StoreOptions<T>) {
    this.resource = resource;
    this.selection = selection;
    this.#freeze = freeze ?? process.env.NODE_ENV === 'test';
    this.#log = log;
    for (const [name, keysOf] of Object.entries(indexes)) this.#indexes.set(name, { keysOf, buckets: new Map() });
  }

  get(namespace: string | undefined, name: string): T | undefined {
    return this.getByKey(keyFor(namespace, name));
  }

  getByKey(key: string): T | undefined {
    return this.#entries.get(key)?.object;
  }

  list(): readonly T[] {
    this.#list ??= Object.freeze(Array.from(this.#entries.values(), (entry) => entry.object));
    return this.#list;
  }

  byIndex(index: string, key: string): readonly T[] {
    return [...(this.#index(index).buckets.get(key)?.objects.values() ?? [])];
  }

  firstByIndex(index: string, key: string, count: number): readonly T[] {
    const first: T[] = [];
    for (const object of this.#index(index).buckets.get(key)?.objects.values() ?? []) {
      if (first.length === count) break;
      first.push(object);
    }
    return first;
  }

  countByIndex(index: string, key: string): number {
    return this.#index(index).buckets.get(key)?.objects.size ?? 0;
  }

  get size(): number {
    return this.#entries.size;
  }

  get synced(): boolean {
    return this.#isSynced;
  }

  whenSynced(signal?: AbortSignal): Promise<void> {
    if (this.#isSynced || !signal) return this.#synced.promise;
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      if (signal.aborted) return abort();
      signal.addEventListener('abort', abort, { once: true });
      void this.#synced.promise.then(() => {
        signal.removeEventListener('abort', abort);
        resolve();
      });
    });
  }

  subscribe(listener: (change: Change<T>) => void): Disposable {
    // A wrapper per call, so that a function which subscribes twice has two subscriptions.
    const own = (change: Change<T>) => listener(change);
    this.#listeners.add(own);
    return { [Symbol.dispose]: () => void this.#listeners.delete(own) };
  }

  get version(): number {
    return this.#version;
  }

  get lists(): number {
    return this.#lists;
  }

  versionOf(namespace: string | undefined, name: string): number {
    return this.#entries.get(keyFor(namespace, name))?.version ?? 0;
  }

  indexVersion(index: string, key: string): number {
    return this.#index(index).buckets.get(key)?.version ?? 0;
  }

  set(object: T): void {
    this.#advance(object.metadata.resourceVersion);
    const known = this.#entries.get(keyOf(object))?.object;
    if (this.#isHistory(object) || (known && (compareVersions(object, known) ?? 1) <= 0)) return;
    this.#notify(this.#put(this.#own(object)));
  }

  remove(object: T): void {
    this.#advance(object.metadata.resourceVersion);
    if (object.metadata.uid) this.#gone.delete(object.metadata.uid);
    const key = keyOf(object);
    if (!this.#isBelowFloor(object)) this.#floors.delete(key);
    const known = this.#entries.get(key)?.object;
    // A newer state is an own write after this deletion.
    if (!known || (compareVersions(known, object) ?? 0) > 0) return;
    this.#shown(object.metadata.resourceVersion);
    this.#notify(this.#drop(key, known.metadata.uid === object.metadata.uid ? this.#own(object) : known));
  }

  progress(resourceVersion: string): void {
    this.#advance(resourceVersion);
  }

  distrust(): void {
    this.#distrusted = true;
  }

  get seenTo(): string | undefined {
    return this.#progress;
  }

  get latest(): string | undefined {
    return this.#latest;
  }

  swap(objects: Iterable<T>, resourceVersion: string): void {
    const initial = !this.#isSynced;
    this.#lists++;
    // An older version than before: etcd was restored from a backup, and known versions cannot be compared.
    const restored = this.#distrusted || (compareResourceVersions(resourceVersion, this.#progress) ?? 0) < 0;
    this.#distrusted = false;
    if (restored) {
      this.#latest = undefined;
      this.#gone.clear();
      this.#floors.clear();
    }
    const listed = new Map<string, T>();
    for (const object of objects) listed.set(keyOf(object), object);

    const changes: Change<T>[] = [];
    for (const [key, { object }] of this.#entries) {
      const writtenLater = (compareResourceVersions(object.metadata.resourceVersion, resourceVersion) ?? 0) > 0;
      if (listed.has(key) || (writtenLater && !restored)) continue;
      changes.push(...this.#drop(key, object, initial));
    }
    for (const [key, object] of listed) {
      const known = this.#entries.get(key)?.object;
      const unchanged = known && known.metadata.uid === object.metadata.uid && compareVersions(object, known) === 0;
      // The known state is an own write after the list. Any other older state comes from a restored etcd.
      const older = known && !restored && (compareVersions(object, known) ?? 1) < 0 && isAfter(known, resourceVersion);
      if (unchanged || older || this.#isHistory(object)) continue;
      changes.push(...this.#put(this.#own(object), initial));
    }
    this.#progress = resourceVersion;
    for (const [key, floor] of this.#floors) {
      if ((compareResourceVersions(floor, resourceVersion) ?? 0) <= 0) this.#floors.delete(key);
    }
    this.#isSynced = true;
    this.#notify(changes);
    if (initial) this.#synced.resolve();
  }

  observe(object: T): void {
    const { resourceVersion } = object.metadata;
    // Outdated: the watch has already sent this state, a newer one, or the deletion.
    if (this.#isSynced && (compareResourceVersions(resourceVersion, this.#progress) ?? 0) <= 0) return;
    const key = keyOf(object);
    const known = this.#entries.get(key)?.object;
    if (this.#isHistory(object) || (known && (compareVersions(object, known) ?? 0) <= 0)) return;
    if (selects(this.selection, object)) {
      this.#notify(this.#put(this.#own(structuredClone(withoutManagedFields(object)))));
    } else if (known) {
      this.#floors.set(key, resourceVersion);
      this.#notify(this.#drop(key, known));
    }
  }

  observeGone(ref: ObjectRef, uid: string): void {
    const key = keyFor(ref.namespace, ref.name);
    const known = this.#entries.get(key)?.object;
    // No event removes a uid from the set when the watch sent the deletion before the response arrived, or when a new
    // list skipped the event: the oldest uid is dropped.
    const [oldest] = this.#gone.size < GONE_LIMIT ? [] : this.#gone;
    if (oldest !== undefined) this.#gone.delete(oldest);
    this.#gone.add(uid);
    if (known?.metadata.uid !== uid) return;
    this.#floors.set(key, known.metadata.resourceVersion);
    this.#notify(this.#drop(key, known));
  }

  #index(name: string): Index<T> {
    const index = this.#indexes.get(name);
    if (!index) throw new TypeError(`the store of ${this.resource.plural} has no index "${name}"`);
    return index;
  }

  #advance(resourceVersion: string | undefined): void {
    if (resourceVersion && (compareResourceVersions(resourceVersion, this.#progress) ?? 1) > 0) {
      this.#progress = resourceVersion;
    }
  }

  #shown(resourceVersion: string | undefined): void {
    if (resourceVersion && (compareResourceVersions(resourceVersion, this.#latest) ?? 1) > 0) {
      this.#latest = resourceVersion;
    }
  }

  #isBelowFloor({ metadata }: T): boolean {
    const floor = this.#floors.get(keyOf({ metadata }));
    return (compareResourceVersions(metadata.resourceVersion, floor) ?? 1) <= 0;
  }

  #isHistory(object: T): boolean {
    return this.#isBelowFloor(object) || (object.metadata.uid !== undefined && this.#gone.has(object.metadata.uid));
  }

  /** Prepares an object for the store: without managedFields, and frozen if so configured. */
  #own(object: T): T {
    delete object.metadata.managedFields;
    return this.#freeze ? deepFreeze(object) : object;
  }

  #put(object: T, initial = false): Change<T>[] {
    const key = keyOf(object);
    const previous = this.#entries.get(key)?.object;
    if (previous && previous.metadata.uid !== object.metadata.uid) {
      return [...this.#drop(key, previous, initial), ...this.#put(object, initial)];
    }
    this.#touch(key, previous, object);
    this.#entries.set(key, { object, version: this.#version });
    this.#shown(object.metadata.resourceVersion);
    return [{ type: 'set', key, object, ...(previous ? { previous } : {}), initial }];
  }

  #drop(key: string, last: T, initial = false): Change<T>[] {
    const previous = this.#entries.get(key)?.object;
    if (!previous) return [];
    this.#touch(key, previous, undefined);
    this.#entries.delete(key);
    return [{ type: 'delete', key, object: last, previous, initial }];
  }

  /** Raises the version and moves the object between index buckets. */
  #touch(key: string, before: T | undefined, after: T | undefined): void {
    this.#version++;
    this.#list = undefined;
    for (const { keysOf, buckets } of this.#indexes.values()) {
      const next = new Set(after ? keysOf(after) : []);
      for (const indexKey of before ? keysOf(before) : []) {
        const bucket = buckets.get(indexKey);
        if (!bucket || next.has(indexKey)) continue;
        bucket.objects.delete(key);
        bucket.version = this.#version;
        if (bucket.objects.size === 0) buckets.delete(indexKey);
      }
      for (const indexKey of next) {
        const bucket = buckets.get(indexKey) ?? { objects: new Map<string, T>(), version: 0 };
        bucket.objects.set(key, after as T);
        bucket.version = this.#version;
        buckets.set(indexKey, bucket);
      }
    }
  }

  #notify(changes: readonly Change<T>[]): void {
    for (const change of changes) {
      for (const listener of [...this.#listeners]) {
        try {
          listener(change);
        } catch (error) {
          // An error of one listener must affect neither the other listeners nor the connection of the reflector.
          this.#log.error({ err: error, resource: this.resource.plural, key: change.key }, 'Store listener failed');
        }
      }
    }
  }
}

const isAfter = ({ metadata }: KubeObject, resourceVersion: string) =>
  (compareResourceVersions(metadata.resourceVersion, resourceVersion) ?? 1) > 0;

const compareVersions = (a: KubeObject, b: KubeObject) =>
  compareResourceVersions(a.metadata.resourceVersion, b.metadata.resourceVersion);

function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata;
  return { ...object, metadata };
}

function deepFreeze<V>(value: V): V {
  if (value !== null && typeof value === 'object' && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const inner of Object.values(value)) deepFreeze(inner);
  }
  return value;
}
