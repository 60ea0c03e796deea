import type { KubeConfig } from '@kubernetes/client-node';
import type { KubeObject, ObjectRef, Resource } from './object.ts';
import type { Metrics } from './ports.ts';

export * from './api-error.ts';

/** Every call ends: at the latest after `timeoutMs` (30 s unless told), retries included. */
export interface CallOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

export interface ListOptions extends CallOptions {
  /** All namespaces when absent. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Page size; 500 unless told, 0 for everything in one answer. */
  limit?: number;
  continueToken?: string;
}

export interface ListPage<T> {
  items: T[];
  resourceVersion: string;
  /** Absent on the last page. */
  continueToken?: string;
}

export interface WriteOptions extends CallOptions {
  fieldManager?: string;
  subresource?: string;
  dryRun?: boolean;
}

export interface JsonPatchOperation {
  op: 'add' | 'remove' | 'replace' | 'test' | 'move' | 'copy';
  path: string;
  value?: unknown;
  from?: string;
}

export type Patch =
  | { type: 'merge'; body: object }
  | { type: 'json'; body: readonly JsonPatchOperation[] }
  /** Server-side apply: needs `fieldManager`; `force` takes over fields that another manager owns. */
  | { type: 'apply'; body: object; force?: boolean };

export interface DeleteOptions extends CallOptions {
  preconditions?: { uid?: string; resourceVersion?: string };
  propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
  gracePeriodSeconds?: number;
}

/** `object` is what still exists, waiting for its finalizers; absent when the object is gone. */
export interface DeleteResult<T> {
  object?: T;
}

export interface WatchOptions {
  signal?: AbortSignal;
  /** Deadline for the response headers; a watch itself has none. */
  timeoutMs?: number;
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  resourceVersion?: string;
  /** Stream the current state first, as ADDED events closed by a bookmark annotated `k8s.io/initial-events-end`. */
  sendInitialEvents?: boolean;
  /** After how many seconds the server shall end the watch. */
  timeoutSeconds?: number;
}

/** Bookmarks carry an object with nothing but `metadata.resourceVersion` (and annotations). */
export interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
}

/** Told about every completed write, before the writer's promise resolves: see `Store.observe`. */
export interface WriteObserver<T extends KubeObject> {
  observe(object: T): void;
  observeGone(ref: ObjectRef, uid: string | undefined): void;
}

export interface KubeClientOptions {
  /**
   * Where and as whom. A function because credentials rotate: it is called again after a 401 and must then return a
   * KubeConfig that read its files anew.
   */
  config: () => KubeConfig;
  userAgent?: string;
  metrics?: Metrics;
  /** Parallel connections for calls (watches have their own, unbounded). 32 unless told. */
  connections?: number;
  /** Cap of one response or watch line, checked before it is held in memory. */
  maxResponseBytes?: number;
  maxLineBytes?: number;
}

/**
 * Raw JSON over HTTP/1.1: no code generation, no serializer, no compression.
 *
 * Guarantees
 * - Every call takes a signal and has a deadline; aborting rejects with the signal's reason.
 * - Reads and idempotent writes are repeated on 429, 5xx and broken connections, with jittered backoff, honouring
 *   Retry-After, within the deadline. Others only when it is certain that nothing was executed (429, refused).
 * - A 401 reloads the credentials and repeats once.
 * - Failures are {@link ApiError} (the server said no) or {@link TransportError} (no readable answer).
 *
 * Objects from lists get the `apiVersion` and `kind` that the server leaves out there.
 */
export interface KubeClient extends AsyncDisposable {
  get<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T>;
  /** Like `get`, with absence as a value. */
  find<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T | undefined>;
  /** All pages as one array, consistent as of `resourceVersion`. Throws `isExpired` when paging took too long. */
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ListPage<T>>;
  listPages<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): AsyncIterable<ListPage<T>>;
  listPage<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ListPage<T>>;
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  /** PUT. With `metadata.resourceVersion` set, only if nobody wrote in between. */
  replace<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, patch: Patch, options?: WriteOptions): Promise<T>;
  delete<T extends KubeObject>(
    resource: Resource<T>,
    ref: ObjectRef,
    options?: DeleteOptions,
  ): Promise<DeleteResult<T>>;
  /**
   * One watch connection. Ends when the server closes it in order; throws {@link ApiError} for an ERROR event
   * ({@link isExpired} means list again) and {@link TransportError} when the connection breaks or carries rubbish.
   * Bookmarks are always asked for. Nothing is read ahead beyond one chunk: a slow consumer slows the server.
   */
  watch<T extends KubeObject>(resource: Resource<T>, options?: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /** Anything else: reviews, token requests, `/version`. `path` may carry a query. Repeated only when a GET. */
  request<R>(method: string, path: string, body?: unknown, options?: CallOptions): Promise<R>;
  /** Reports every write to `resource` made through this client. A store given here sees our own writes at once. */
  observeWrites<T extends KubeObject>(resource: Resource<T>, observer: WriteObserver<T>): Disposable;
  /** The same client and connections, except that writes are refused while `mayWrite()` is false. For the leader. */
  fenced(mayWrite: () => boolean): KubeClient;
}

/** The path of a resource, an object or its subresource. */
export function pathOf(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const root = resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const parts = [root];
  if (resource.namespaced && namespace) parts.push('namespaces', encodeURIComponent(namespace));
  parts.push(resource.plural);
  if (name !== undefined) parts.push(encodeURIComponent(name));
  if (subresource) parts.push(subresource);
  return parts.join('/');
}

export function createClient(_options: KubeClientOptions): KubeClient {
  throw new Error('not written yet');
}
