import type { KubeConfig } from '@kubernetes/client-node';
import type { Dispatcher } from 'undici';
import { ApiError, isConflict, isNotFound, isUnauthorized, type StatusBody, TransportError } from './api-error.ts';
import { type Backoff, backoffDelay } from './backoff.ts';
import { sleep, systemClock } from './clock.ts';
import { startDeadline } from './deadline.ts';
import type { Metrics } from './dependencies.ts';
import { createJsonLines } from './json-lines.ts';
import { apiVersionOf, isEnded, type KubeObject, nameOf, type ObjectRef, type Resource, refOf } from './object.ts';
import { createTransport, type Transport, translate } from './transport.ts';

export * from './api-error.ts';

/** Every call ends after at most `timeoutMs` (default 30 s), retries included. */
export interface CallOptions {
  signal?: AbortSignal;
  timeoutMs?: number;
}

export interface ListOptions extends CallOptions {
  /** All namespaces when absent. */
  namespace?: string;
  labelSelector?: string;
  fieldSelector?: string;
  /** Page size; default 500, 0 for all objects in one response. */
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
  /** The number of seconds after which the server is to end the watch. */
  timeoutSeconds?: number;
  /** Called when the server has accepted the watch, possibly long before the first event. */
  onOpen?: () => void;
}

/** The object of a bookmark has only `metadata.resourceVersion` and annotations. */
export interface WatchEvent<T> {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK';
  object: T;
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
  metrics?: Metrics;
  /** Maximum of parallel connections for calls; default 32. Watches have further connections, without a limit. */
  connections?: number;
  /** Maximum length of a response; it is checked while the response is received. */
  maxResponseBytes?: number;
  /** Maximum length of one line of a watch. */
  maxLineBytes?: number;
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
  /** All pages as one array, consistent as of `resourceVersion`. Throws an `isExpired` error when paging took too long. */
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

const CALL_MS = 30_000;
const LIST_MS = 60_000;
const PAGE_SIZE = 500;
const RETRIES = 5;
const RETRY: Backoff = { baseMs: 100, factor: 3, maxMs: 5_000, jitter: 0.5 };

const PATCH_TYPES: Record<Patch['type'], string> = {
  merge: 'application/merge-patch+json',
  json: 'application/json-patch+json',
  apply: 'application/apply-patch+yaml', // JSON is YAML; old servers know no other name
};

/** One request for the retry loop. `repeatable`: the effect of two executions is that of one. */
interface Call {
  verb: string;
  resource: string;
  method: string;
  path: string;
  body?: unknown;
  contentType?: string;
  repeatable: boolean;
}

/**
 * The delay before a failed call is retried, or undefined when it must not be retried. `attempt` counts from 1.
 */
export function retryDelay(
  error: unknown,
  attempt: number,
  repeatable: boolean,
  random: () => number,
): number | undefined {
  if (attempt > RETRIES) return undefined;
  const backoff = backoffDelay(RETRY, attempt, random);
  if (error instanceof TransportError) {
    const executedForSure = error.code === 'malformed' || error.code === 'too-large';
    if (executedForSure || error.code === 'timeout') return undefined;
    return repeatable || error.code === 'refused' ? backoff : undefined;
  }
  if (!(error instanceof ApiError)) return undefined;
  // 429 comes from flow control, before the request is executed.
  const mayRepeat = error.status === 429 || (error.status >= 500 && repeatable);
  if (!mayRepeat) return undefined;
  return Math.max(backoff, (error.retryAfterSeconds ?? 0) * 1000);
}

/** Whether a request that failed with this error may have been executed. */
const mayBeDone = (error: unknown): boolean =>
  error instanceof TransportError ? error.code !== 'refused' : error instanceof ApiError && error.status >= 500;

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
    maxLineBytes: options.maxLineBytes ?? 16 * 2 ** 20,
    mayWrite: () => true,
  });
}

interface Core {
  transport: Transport;
  observers: Map<string, Set<WriteObserver<KubeObject>>>;
  metrics: Metrics;
  maxResponseBytes: number;
  maxLineBytes: number;
  mayWrite: () => boolean;
}

function clientOver(core: Core): KubeClient {
  const { transport, observers, metrics } = core;

  /** Sends one request. Returns the parsed body, or throws an ApiError or TransportError. */
  async function exchange(call: Call, signal: AbortSignal): Promise<unknown> {
    const start = performance.now();
    let code = '';
    try {
      const response = await transport.send({
        method: call.method,
        path: call.path,
        ...(call.body === undefined
          ? {}
          : {
              body: JSON.stringify(call.body),
              headers: { 'content-type': call.contentType ?? 'application/json' },
            }),
        lane: 'call',
        signal,
      });
      code = String(response.statusCode);
      const text = await readBody(response, core.maxResponseBytes, signal);
      if (response.statusCode >= 400) throw errorFrom(response, text, `${call.verb} ${call.path}`);
      return text === '' ? undefined : parseBody(text);
    } catch (error) {
      code ||= error instanceof TransportError ? error.code : 'aborted';
      throw error;
    } finally {
      metrics.apiRequest?.({ verb: call.verb, resource: call.resource, code }, (performance.now() - start) / 1000);
    }
  }

  async function perform(call: Call, { signal, timeoutMs = CALL_MS }: CallOptions): Promise<unknown> {
    if (call.method !== 'GET' && !core.mayWrite()) throw new FencedError(`${call.verb} ${call.path}`);
    using deadline = startDeadline(timeoutMs, signal);
    let reloaded = false;
    /** the error of an attempt that may have been executed */
    let unclear: unknown;
    for (let attempt = 1; ; attempt++) {
      try {
        return await exchange(call, deadline.signal);
      } catch (error) {
        if (deadline.signal.aborted) throw deadline.signal.reason;
        // The conflict may come from the earlier attempt: a caller that reads and retries would write twice.
        if (unclear !== undefined && call.method !== 'DELETE' && isConflict(error)) throw unclear;
        if (mayBeDone(error)) unclear ??= error;
        if (isUnauthorized(error) && !reloaded) {
          reloaded = true;
          transport.reload();
          continue;
        }
        const delay = retryDelay(error, attempt, call.repeatable, Math.random);
        // A delay beyond the deadline would only replace this error by a timeout, which says less.
        if (delay === undefined || systemClock.now() + delay >= deadline.at) throw error;
        await sleep(delay, deadline.signal);
        if (deadline.signal.aborted) throw deadline.signal.reason;
        if (call.method !== 'GET' && !core.mayWrite()) throw new FencedError(`${call.verb} ${call.path}`);
      }
    }
  }

  const observersOf = <T extends KubeObject>(resource: Resource<T>) =>
    [...(observers.get(nameOf(resource)) ?? [])] as WriteObserver<T>[];

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
    call: Omit<Call, 'resource' | 'path'>,
    ref: { namespace?: string; name?: string },
    options: WriteOptions,
    query: Query = {},
  ): Promise<T> {
    const path = withQuery(pathOf(resource, ref.namespace, ref.name, options.subresource), {
      fieldManager: options.fieldManager,
      dryRun: options.dryRun ? 'All' : undefined,
      ...query,
    });
    const result = (await perform({ ...call, resource: nameOf(resource), path }, options)) as T;
    // Some subresources return another kind (Scale, TokenRequest).
    if (!options.dryRun && result.kind === resource.kind) report(resource, result);
    return result;
  }

  const client: KubeClient = {
    async get(resource, ref, options = {}) {
      const path = pathOf(resource, ref.namespace, ref.name);
      return (await perform(
        { verb: 'get', resource: nameOf(resource), method: 'GET', path, repeatable: true },
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
      const body = (await perform(
        { verb: 'list', resource: nameOf(resource), method: 'GET', path, repeatable: true },
        { timeoutMs: LIST_MS, ...options },
      )) as { items?: T[] | null; metadata: { resourceVersion: string; continue?: string } };
      const page: ListPage<T> = {
        items: (body.items ?? []).map((item) => typed(resource, item)),
        resourceVersion: body.metadata.resourceVersion,
      };
      if (body.metadata.continue) page.continueToken = body.metadata.continue;
      return page;
    },

    async *listPages(resource, options = {}) {
      let continueToken = options.continueToken;
      do {
        const page = await client.listPage(resource, { ...options, ...(continueToken ? { continueToken } : {}) });
        continueToken = page.continueToken;
        yield page;
      } while (continueToken);
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
      const call = { verb: 'delete', resource: nameOf(resource), method: 'DELETE', path, body, repeatable: true };
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

    async *watch<T extends KubeObject>(resource: Resource<T>, options: WatchOptions = {}) {
      const context = `watch ${nameOf(resource)}`;
      const path = withQuery(pathOf(resource, options.namespace), {
        watch: 'true',
        allowWatchBookmarks: 'true',
        labelSelector: options.labelSelector,
        fieldSelector: options.fieldSelector,
        resourceVersion: options.resourceVersion,
        ...(options.sendInitialEvents ? { sendInitialEvents: 'true', resourceVersionMatch: 'NotOlderThan' } : {}),
        timeoutSeconds: options.timeoutSeconds,
      });
      const stop = new AbortController();
      const follow = () => stop.abort(options.signal?.reason);
      if (options.signal?.aborted) follow();
      else options.signal?.addEventListener('abort', follow);
      const start = performance.now();
      let code = '';
      try {
        const response = await openWatch(path, stop, options.timeoutMs ?? CALL_MS);
        code = String(response.statusCode);
        if (response.statusCode >= 400) {
          using deadline = startDeadline(CALL_MS, stop.signal);
          throw errorFrom(response, await readBody(response, core.maxResponseBytes, deadline.signal), context);
        }
        metrics.apiRequest?.({ verb: 'watch', resource: nameOf(resource), code }, (performance.now() - start) / 1000);
        options.onOpen?.();
        const lines = createJsonLines(core.maxLineBytes);
        for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
          for (const line of lines.push(chunk)) yield watchEvent(resource, line, context);
        }
        lines.end();
      } catch (error) {
        throw error instanceof ApiError ? error : translate(error, stop.signal);
      } finally {
        options.signal?.removeEventListener('abort', follow);
      }
    },

    async request(method, path, body, options = {}) {
      const verb = method.toLowerCase();
      const call = { verb, resource: 'raw', method, path, body, repeatable: method === 'GET' };
      return (await perform(call, options)) as never;
    },

    observeWrites<T extends KubeObject>(resource: Resource<T>, observer: WriteObserver<T>) {
      const name = nameOf(resource);
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

  /** Waits for the response headers, at most `timeoutMs`. After a 401 it reloads the credentials and retries once. */
  async function openWatch(path: string, stop: AbortController, timeoutMs: number): Promise<Dispatcher.ResponseData> {
    const cancel = systemClock.after(timeoutMs, () => {
      stop.abort(new TransportError('timeout', `no response headers within ${timeoutMs} ms`));
    });
    try {
      const send = () => transport.send({ method: 'GET', path, lane: 'watch', signal: stop.signal });
      const first = await send();
      if (first.statusCode !== 401) return first;
      transport.reload();
      await first.body.dump();
      return await send();
    } finally {
      cancel();
    }
  }

  return client;
}

/** A write by a client that may not write any more: a former leader. No request was sent. */
export class FencedError extends Error {
  override readonly name = 'FencedError';
  readonly code = 'KUBE_FENCED';
  constructor(context: string) {
    super(`${context}: refused, this process may not write now`);
  }
}

type Query = Record<string, string | number | undefined>;

function withQuery(path: string, query: Query): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) params.set(name, String(value));
  return params.size === 0 ? path : `${path}?${params}`;
}

async function readBody(response: Dispatcher.ResponseData, maxBytes: number, signal: AbortSignal): Promise<string> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  try {
    for await (const chunk of response.body as AsyncIterable<Uint8Array>) {
      size += chunk.length;
      if (size > maxBytes) throw new TransportError('too-large', `a response exceeds ${maxBytes} bytes`);
      chunks.push(chunk);
    }
  } catch (error) {
    throw translate(error, signal);
  }
  return Buffer.concat(chunks, size).toString('utf8');
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new TransportError('malformed', 'the response is not JSON', cause);
  }
}

function errorFrom(response: Dispatcher.ResponseData, text: string, context: string): ApiError {
  let body: StatusBody;
  try {
    body = JSON.parse(text) as StatusBody;
    if (body === null || typeof body !== 'object') throw new TypeError('not a Status');
  } catch {
    body = { message: text.slice(0, 500).trim() || `HTTP ${response.statusCode}` };
  }
  return new ApiError(response.statusCode, body, context, retryAfterOf(response.headers['retry-after']));
}

/** Kubernetes sends seconds; a proxy in front of it may send a date. */
function retryAfterOf(header: string | string[] | undefined): number | undefined {
  const text = Array.isArray(header) ? header[0] : header;
  if (text === undefined) return undefined;
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(0, seconds) : undefined;
}

function watchEvent<T extends KubeObject>(resource: Resource<T>, line: unknown, context: string): WatchEvent<T> {
  const { type, object } = (line ?? {}) as { type?: string; object?: T & StatusBody };
  if (object === null || typeof object !== 'object') {
    throw new TransportError('malformed', 'a watch event has no object');
  }
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
    case 'BOOKMARK':
      return { type, object: typed(resource, object as T) };
    case 'ERROR':
      throw new ApiError((object as StatusBody).code ?? 500, object as StatusBody, context);
    default:
      throw new TransportError('malformed', `unknown watch event type ${String(type).slice(0, 40)}`);
  }
}

function typed<T extends KubeObject>(resource: Resource<T>, object: T): T {
  object.apiVersion ??= apiVersionOf(resource);
  object.kind ??= resource.kind;
  return object;
}

function isObject<T extends KubeObject>(answer: StatusBody | T): answer is T {
  return answer.kind !== 'Status';
}
