import type { KubeConfig } from '@kubernetes/client-node';
import { isNotFound, type StatusBody } from './api-error.ts';
import { type ApiCall, type CallContext, type CallOptions, performCall, RETRIES } from './call.ts';
import type { KubeMetrics } from './metrics.ts';
import { groupResource, isEnded, type KubeObject, type ObjectRef, type Resource, refOf } from './object.ts';
import { createPageSize, PAGE_SIZE } from './page-size.ts';
import { pathOf, type Query, withQuery } from './path.ts';
import { typed } from './response.ts';
import { createTransport, METADATA_ONLY } from './transport.ts';
import { type WatchContext, type WatchEvent, type WatchOptions, watchStream } from './watch-stream.ts';

export * from './api-error.ts';

export interface ListOptions extends CallOptions {
  /** All namespaces when absent. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Page size; default 500, 0 for all objects in one response. */
  limit?: number;
  continueToken?: string;
  /** the objects have their metadata alone */
  metadataOnly?: boolean;
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
  /** refuses an object with fields that the API server does not know; otherwise it drops them */
  isStrict?: boolean;
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

interface DeleteOptions extends CallOptions {
  preconditions?: { uid?: string; resourceVersion?: string };
  propagationPolicy?: 'Foreground' | 'Background' | 'Orphan';
  gracePeriodSeconds?: number;
}

/** The delete of an absent object is no error. `object` is set while the object still exists because of its finalizers. */
interface DeleteResult<T> {
  found: boolean;
  object?: T;
}

/** Gets the result of every completed write before the promise of the write resolves; see `Store.observe`. */
interface WriteObserver<T extends KubeObject> {
  observe(object: T): void;
  observeGone(ref: ObjectRef, uid: string): void;
}

export interface KubeClientOptions {
  /**
   * The API server and the credentials. A function because credentials rotate: it is called again after a 401 and must
   * then return a KubeConfig that has read its files again.
   */
  config: () => KubeConfig;
  userAgent?: string;
  metrics?: KubeMetrics;
  /** Maximum of parallel connections for calls; default 32. Watches have further connections, without a limit. */
  connections?: number;
  /** Maximum length of a response; it is checked while the response is received. */
  maxResponseBytes?: number;
  /** Maximum length of a page of a list that is requested with a limit: while it is read it takes four times as much memory. */
  maxPageBytes?: number;
  /** Maximum length of one line of a watch. */
  maxLineBytes?: number;
  /** Retries of a call without a connection to the API server: few where a person waits; default 5, which take about 5 s. */
  connectRetries?: number;
}

/**
 * Raw JSON over HTTP/1.1: no code generation, no serializer, no compression.
 *
 * Guarantees
 * - Every call takes a signal and has a deadline; a call that is aborted rejects with the reason of the signal.
 * - Reads and idempotent writes are retried on 429, 5xx and broken connections, within the deadline, with a backoff that
 *   has jitter and respects Retry-After. Other writes are retried only when the server did not execute them (429, refused).
 * - A conflict always comes from the write of another client. When an earlier attempt of the same call may have been
 *   executed, the call rejects with the error of that attempt, because the conflict may come from the call's own write.
 * - After a 401 the client reloads the credentials and retries once.
 * - Failures are {@link ApiError} (an error response) or {@link TransportError} (no readable response).
 *
 * Objects of lists get `apiVersion` and `kind`, which the server omits there.
 */
export interface KubeClient extends AsyncDisposable {
  get<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T>;
  /** Like `get`, but resolves with undefined when the object does not exist. */
  find<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options?: CallOptions): Promise<T | undefined>;
  /**
   * All pages as one array, consistent as of `resourceVersion`. Throws an `isExpired` error when paging took too long. Pages
   * that are too large are requested again with fewer objects.
   */
  list<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ListPage<T>>;
  listPages<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): AsyncIterable<ListPage<T>>;
  listPage<T extends KubeObject>(resource: Resource<T>, options?: ListOptions): Promise<ListPage<T>>;
  create<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  /** PUT. With `metadata.resourceVersion`, a write in between leads to a conflict. */
  replace<T extends KubeObject>(resource: Resource<T>, object: T, options?: WriteOptions): Promise<T>;
  patch<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, patch: Patch, options?: WriteOptions): Promise<T>;
  delete<T extends KubeObject>(
    resource: Resource<T>,
    ref: ObjectRef,
    options?: DeleteOptions,
  ): Promise<DeleteResult<T>>;
  /**
   * One watch connection. Ends when the server closes it properly; throws {@link ApiError} for an ERROR event (after
   * {@link isExpired} a new list is necessary) and {@link TransportError} when the connection breaks or a line cannot be
   * read. Bookmarks are always requested. At most one chunk is read ahead: a slow consumer slows the server.
   */
  watch<T extends KubeObject>(resource: Resource<T>, options?: WatchOptions): AsyncIterable<WatchEvent<T>>;
  /** Other requests: reviews, token requests, `/version`. `path` may have a query. Only a GET is retried. */
  request<R>(method: string, path: string, body?: unknown, options?: CallOptions): Promise<R>;
  /** Reports every write to `resource` through this client. With a store as the observer, reads see own writes at once. */
  observeWrites<T extends KubeObject>(resource: Resource<T>, observer: WriteObserver<T>): Disposable;
  /** A client with the same connections that rejects writes while `mayWrite()` is false. For the leader. */
  fenced(mayWrite: () => boolean): KubeClient;
}

const LIST_MS = 60_000;

const PATCH_TYPES: Record<Patch['type'], string> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml', // JSON is YAML; old servers know no other name
};

export function createClient(options: KubeClientOptions): KubeClient {
  const transport = createTransport({
    config: options.config,
    userAgent: options.userAgent ?? 'skerry',
    connections: options.connections ?? 32,
  });
  return clientOver({
    transport,
    observers: new Map(),
    metrics: options.metrics ?? {},
    maxResponseBytes: options.maxResponseBytes ?? 256 * 2 ** 20,
    maxPageBytes: Math.min(options.maxPageBytes ?? 32 * 2 ** 20, options.maxResponseBytes ?? Number.POSITIVE_INFINITY),
    maxLineBytes: options.maxLineBytes ?? 16 * 2 ** 20,
    mayWrite: () => true,
    connectRetries: options.connectRetries ?? RETRIES,
  });
}

interface Core extends CallContext, WatchContext {
  observers: Map<string, Set<WriteObserver<KubeObject>>>;
  maxPageBytes: number;
}

function clientOver(core: Core): KubeClient {
  const { transport, observers } = core;
  const perform = (call: ApiCall, options: CallOptions) => performCall(core, call, options);
  const paging: CallContext = { ...core, maxResponseBytes: core.maxPageBytes };

  const observersOf = <T extends KubeObject>(resource: Resource<T>) =>
    [...(observers.get(groupResource(resource)) ?? [])] as WriteObserver<T>[];

  function reportGone(resource: Resource, ref: ObjectRef, uid: string | undefined) {
    if (uid) for (const observer of observersOf(resource)) observer.observeGone(ref, uid);
  }

  /** Reports the result of a write to the observers. False when the write ended the object. */
  function report<T extends KubeObject>(resource: Resource<T>, object: T): boolean {
    const ended = isEnded(object);
    if (ended) reportGone(resource, refOf(object), object.metadata.uid);
    else for (const observer of observersOf(resource)) observer.observe(object);
    return !ended;
  }

  async function write<T extends KubeObject>(
    resource: Resource<T>,
    call: Omit<ApiCall, 'resource' | 'path'>,
    ref: { namespace?: string; name?: string },
    options: WriteOptions,
    query: Query = {},
  ): Promise<T> {
    const path = withQuery(pathOf(resource, ref.namespace, ref.name, options.subresource), {
      fieldManager: options.fieldManager,
      dryRun: options.dryRun ? 'All' : undefined,
      fieldValidation: options.isStrict ? 'Strict' : undefined,
      ...query,
    });
    const result = (await perform({ ...call, resource: groupResource(resource), path }, options)) as T;
    // Some subresources return another kind (Scale, TokenRequest).
    if (!options.dryRun && result.kind === resource.kind) report(resource, result);
    return result;
  }

  const client: KubeClient = {
    async get(resource, ref, options = {}) {
      const path = pathOf(resource, ref.namespace, ref.name);
      return (await perform(
        { verb: 'get', resource: groupResource(resource), method: 'GET', path, repeatable: true },
        options,
      )) as never;
    },

    async find(resource, ref, options) {
      try {
        return await client.get(resource, ref, options);
      } catch (error) {
        if (isNotFound(error)) return undefined;
        throw error;
      }
    },

    async listPage<T extends KubeObject>(resource: Resource<T>, options: ListOptions = {}) {
      const path = withQuery(pathOf(resource, options.namespace), {
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
        limit: options.limit === 0 ? undefined : (options.limit ?? PAGE_SIZE),
        continue: options.continueToken,
      });
      const body = (await performCall(
        options.limit === 0 ? core : paging,
        {
          verb: 'list',
          resource: groupResource(resource),
          method: 'GET',
          path,
          repeatable: true,
          ...(options.metadataOnly && { accept: METADATA_ONLY.list }),
        },
        { timeoutMs: LIST_MS, ...options },
      )) as { items?: T[] | null; metadata: { resourceVersion: string; continue?: string } };
      const page: ListPage<T> = {
        items: (body.items ?? []).map((item) => typed(resource, item)),
        resourceVersion: body.metadata.resourceVersion,
      };
      if (body.metadata.continue) page.continueToken = body.metadata.continue;
      return page;
    },

    async *listPages<T extends KubeObject>(resource: Resource<T>, options: ListOptions = {}) {
      const size = createPageSize(options.limit);
      let continueToken = options.continueToken;
      let isComplete = false;
      while (!isComplete) {
        let page: ListPage<T>;
        try {
          const { limit } = size;
          page = await client.listPage(resource, { ...options, limit, ...(continueToken ? { continueToken } : {}) });
        } catch (error) {
          if (size.shrink(error)) continue;
          throw error;
        }
        continueToken = page.continueToken;
        isComplete = !continueToken;
        yield page;
      }
    },

    async list<T extends KubeObject>(resource: Resource<T>, options: ListOptions = {}) {
      const all: ListPage<T> = { items: [], resourceVersion: '' };
      for await (const page of client.listPages(resource, options)) {
        for (const item of page.items) all.items.push(item);
        all.resourceVersion = page.resourceVersion;
      }
      return all;
    },

    create(resource, object, options = {}) {
      const { namespace, name } = object.metadata;
      const ref = options.subresource ? { namespace, name } : { namespace };
      return write(resource, { verb: 'create', method: 'POST', body: object, repeatable: false }, ref, options);
    },

    replace(resource, object, options = {}) {
      const call = { verb: 'update', method: 'PUT', body: object, repeatable: true };
      return write(resource, call, refOf(object), options);
    },

    patch(resource, ref, patch, options = {}) {
      const call = {
        verb: patch.type === 'apply' ? 'apply' : 'patch',
        method: 'PATCH',
        body: patch.body,
        contentType: PATCH_TYPES[patch.type],
        // A JSON patch may append to a list, and a retry would append twice.
        repeatable: patch.type !== 'json',
      };
      return write(resource, call, ref, options, { force: patch.type === 'apply' && patch.force ? 'true' : undefined });
    },

    async delete<T extends KubeObject>(resource: Resource<T>, ref: ObjectRef, options: DeleteOptions = {}) {
      const { preconditions, propagationPolicy, gracePeriodSeconds } = options;
      const body = { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, propagationPolicy, gracePeriodSeconds };
      const path = pathOf(resource, ref.namespace, ref.name);
      const call = {
        verb: 'delete',
        resource: groupResource(resource),
        method: 'DELETE',
        path,
        body,
        repeatable: true,
      };
      let answer: StatusBody | T;
      try {
        answer = (await perform(call, options)) as StatusBody | T;
      } catch (error) {
        if (!isNotFound(error)) throw error;
        reportGone(resource, ref, preconditions?.uid);
        return { found: false };
      }
      if (isObject(answer) && answer.metadata.deletionTimestamp && report(resource, typed(resource, answer))) {
        return { found: true, object: answer };
      }
      // For an object that is gone most resources return a Status, some its last state.
      reportGone(resource, ref, isObject(answer) ? answer.metadata.uid : answer.details?.uid);
      return { found: true };
    },

    watch: (resource, options = {}) => watchStream(core, resource, options),

    async request(method, path, body, options = {}) {
      const verb = method.toLowerCase();
      const call = { verb, resource: 'raw', method, path, body, repeatable: method === 'GET' };
      return (await perform(call, options)) as never;
    },

    observeWrites<T extends KubeObject>(resource: Resource<T>, observer: WriteObserver<T>) {
      const name = groupResource(resource);
      const all = observers.get(name) ?? new Set();
      observers.set(name, all.add(observer as WriteObserver<KubeObject>));
      return {
        [Symbol.dispose]() {
          all.delete(observer as WriteObserver<KubeObject>);
        },
      };
    },

    fenced: (mayWrite) => clientOver({ ...core, mayWrite: () => mayWrite() && core.mayWrite() }),

    [Symbol.asyncDispose]: () => transport[Symbol.asyncDispose](),
  };

  return client;
}

function isObject<T extends KubeObject>(answer: StatusBody | T): answer is T {
  return answer.kind !== 'Status';
}
