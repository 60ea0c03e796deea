import type { KubeObject, ObjectRef, Resource } from './object.ts';

/** Which objects of a resource a store mirrors. Stated once; the reflector builds its queries from it. */
export interface Selection {
  /** All namespaces when absent. */
  readonly namespace?: string;
  /** Objects that carry all of these labels with these values. */
  readonly labels?: Readonly<Record<string, string>>;
  /** One object by name. */
  readonly name?: string;
}

/** `initial` marks what was there when the store filled for the first time; `object` of a delete is its last state. */
export type Change<T> =
  | { type: 'set'; key: string; object: T; previous?: T; initial: boolean }
  | { type: 'delete'; key: string; object: T; previous: T; initial: boolean };

export interface StoreOptions<T extends KubeObject> {
  resource: Resource<T>;
  selection?: Selection;
  /** Named functions from an object to the keys it is found under in {@link Store.byIndex}. Must be pure. */
  indexes?: Record<string, (object: T) => Iterable<string>>;
  /** Deep-freeze what is stored, so that a writer to the shared view throws. On when NODE_ENV is `test`. */
  freeze?: boolean;
}

/**
 * A read-only, shared, local view of the objects of one resource.
 *
 * - Objects are shared: never change one you got here.
 * - A reader never sees an older state of an object after a newer one, and sees our own writes as soon as the client's
 *   promise resolved (connect them with `client.observeWrites(resource, store)`).
 * - While a relist is under way, reads show the state before it; the swap is one step.
 * - An object deleted and created again under its name is reported as a delete and a set.
 */
export interface Store<T extends KubeObject> {
  readonly resource: Resource<T>;
  readonly selection: Selection;
  get(namespace: string | undefined, name: string): T | undefined;
  getByKey(key: string): T | undefined;
  list(): T[];
  /** In no particular order. Throws for an index that was not declared. */
  byIndex(index: string, key: string): T[];
  readonly size: number;
  /** True once the first complete list is in; stays true afterwards, however old the view may be. */
  readonly synced: boolean;
  /** Resolves when synced; rejects with the signal's reason. */
  whenSynced(signal?: AbortSignal): Promise<void>;
  /** Called after each change, synchronously, the whole store already changed. Must be quick; may not throw. */
  subscribe(listener: (change: Change<T>) => void): Disposable;
  /** Grows with every change. Equal versions mean equal content: the key of any memo. */
  readonly version: number;
  /** The store's version when this object last changed; 0 when it is absent. */
  versionOf(namespace: string | undefined, name: string): number;
  /** The store's version when anything under this index key last changed, or left it; 0 when nothing is there. */
  indexVersion(index: string, key: string): number;
  /** A state of an object that the API server confirmed to us. Ignored unless newer than what is known. */
  observe(object: T): void;
  /** The API server confirmed that this object is gone. */
  observeGone(ref: ObjectRef, uid: string | undefined): void;
}

/** The store with the side that a reflector feeds. */
export interface MutableStore<T extends KubeObject> extends Store<T> {
  /** ADDED or MODIFIED from the watch. */
  set(object: T): void;
  /** DELETED from the watch: the object as it was, with the resource version of its deletion. */
  remove(object: T): void;
  /** Everything up to this version has been seen. */
  progress(resourceVersion: string): void;
  /** A complete list as of `resourceVersion`, swapped in at once. */
  swap(objects: Iterable<T>, resourceVersion: string): void;
}

export function createStore<T extends KubeObject>(_options: StoreOptions<T>): MutableStore<T> {
  throw new Error('not written yet');
}
