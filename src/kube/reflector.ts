import { type Backoff, backoffDelay, jittered } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import {
  ApiError,
  isExpired,
  isForbidden,
  isInvalid,
  isNotFound,
  isUnauthorized,
  isVersionTooLarge,
  TransportError,
} from './api-error.ts';
import type { KubeClient } from './client.ts';
import type { KubeMetrics } from './metrics.ts';
import { compareResourceVersions, groupResource, type KubeObject, keyOf } from './object.ts';
import { createPageSize } from './page-size.ts';
import { type MutableStore, type Store, selectionQuery } from './store.ts';

export interface ReflectorOptions<T extends KubeObject> {
  client: Pick<KubeClient, 'watch' | 'listPage'>;
  store: MutableStore<T>;
  log?: Log;
  metrics?: KubeMetrics;
  clock?: Clock;
  random?: () => number;
  timing?: Partial<ReflectorTiming>;
  /** Objects per page when the server does not stream lists; pages that are too large get smaller. */
  pageSize?: number;
  /** `pages` never requests a streamed list. For servers that accept such a request but do not stream, and for tests. */
  lists?: 'auto' | 'pages';
}

export interface ReflectorTiming {
  /** The requested lifetime of a watch: random between the two, so that not all watches end at the same time. */
  watchMs: readonly [number, number];
  /** The time after that lifetime at which the reflector closes the connection itself. */
  graceMs: number;
  /**
   * The time without an event after which a connection counts as dead, once the server has sent a bookmark: it sends
   * one about every minute.
   */
  idleMs: number;
  /** The same during a streamed list. */
  listIdleMs: number;
  /** How long to wait until the server accepts a watch, and for a page of a list. */
  openMs: number;
  pageMs: number;
  backoff: Backoff;
  /** A watch that lasted this long resets the backoff. */
  healthyMs: number;
  /** The pause while the permission to read the resource is missing, or the resource does not exist (yet). */
  refusedMs: number;
}

const TIMING: ReflectorTiming = {
  watchMs: [5 * 60_000, 10 * 60_000],
  graceMs: 5_000,
  idleMs: 150_000,
  listIdleMs: 30_000,
  openMs: 30_000,
  pageMs: 60_000,
  backoff: { baseMs: 500, factor: 2, maxMs: 30_000, jitter: 0.5 },
  healthyMs: 10_000,
  refusedMs: 45_000,
};

/** Whether the store follows the API server at present, for diagnosis. */
interface ReflectorHealth {
  state: 'listing' | 'following' | 'retrying' | 'refused' | 'stopped';
  /** When the state began, on the wall clock. */
  since: number;
  /** The latest error; absent after the next success. */
  lastError?: string;
}

/** Keeps a store equal to the objects of the API server. */
export interface Reflector<T extends KubeObject> extends AsyncDisposable {
  readonly store: Store<T>;
  readonly health: ReflectorHealth;
  /** Takes a new list, after the datastore was restored from a backup: known versions cannot be compared with new ones. */
  restart(): void;
  /** Takes a new list, since the store may lag behind although its connection is open. One that is being taken goes on. */
  listAgain(): void;
}

/** What follows from the end of a watch or list: how to continue, and the pause before. */
export interface Reaction {
  readonly reason: string;
  readonly next: 'resume' | 'relist';
  readonly pause: 'none' | 'backoff' | 'refused';
}

const CLOSED: Reaction = { reason: 'closed', next: 'resume', pause: 'none' };

/** The datastore was restored from a backup: the resource versions of the server are older than one seen before. */
class RestoredError extends Error {
  override readonly name = 'RestoredError';
}

class ListAgainError extends Error {}

/**
 * The retry policy as a table. After a lost connection no event is missed, since the server sends all events after the last
 * version again. After an unreadable event, or with a version that the server no longer has, a new list is necessary.
 */
export function reactTo(error: unknown): Reaction {
  if (isExpired(error)) return { reason: 'expired', next: 'relist', pause: 'none' };
  if (isVersionTooLarge(error)) return { reason: 'version-too-large', next: 'relist', pause: 'backoff' };
  if (isForbidden(error) || isNotFound(error)) return { reason: 'refused', next: 'relist', pause: 'refused' };
  if (isUnauthorized(error)) return { reason: 'unauthorized', next: 'resume', pause: 'backoff' };
  if (isInvalid(error)) return { reason: 'invalid', next: 'relist', pause: 'backoff' };
  if (error instanceof ApiError) return { reason: `http-${error.status}`, next: 'resume', pause: 'backoff' };
  if (error instanceof RestoredError) return { reason: 'restored', next: 'relist', pause: 'backoff' };
  if (error instanceof ListAgainError) return { reason: 'list-again', next: 'relist', pause: 'none' };
  if (error instanceof TransportError) {
    const unreadable = error.code === 'malformed' || error.code === 'too-large';
    return { reason: error.code, next: unreadable ? 'relist' : 'resume', pause: 'backoff' };
  }
  return { reason: 'bug', next: 'relist', pause: 'backoff' };
}

/** After so many consecutive server errors the requested version may be the cause, and a new list is taken. */
const SERVER_ERRORS_BEFORE_RELIST = 5;
/** An API server that has just started and has not read its roles yet refuses requests that they allow. */
const REFUSALS_AT_START = 5;
const QUICK_MS = 1_000;
const QUICK_ENDS_FREE = 2;

/**
 * Starts a reflector, which ends when `signal` aborts or when it is disposed. It never throws: it retries forever.
 *
 *     list (streamed, or page by page) --> follow --> lost, timeout, closed: follow from the last version
 *      ^                                      |
 *      +---- expired, unreadable, restored <--+
 *
 * No list requests `resourceVersion=0`: the server would ignore the limit, and the list may be older than the store.
 */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>, signal?: AbortSignal): Reflector<T> {
  const { client, store, clock = systemClock, random = Math.random, metrics = {} } = options;
  const timing = { ...TIMING, ...options.timing };
  const resource = groupResource(store.resource);
  const log = (options.log ?? silentLog).child({ resource });
  const query = selectionQuery(store.selection);
  const pageSize = createPageSize(options.pageSize);
  const stop = new AbortController();
  const follow = () => stop.abort(signal?.reason);
  if (signal?.aborted) follow();
  else signal?.addEventListener('abort', follow);

  /** The store has everything up to this resource version; undefined when a list is necessary. */
  let cursor: string | undefined;
  let streams = options.lists !== 'pages';
  /** The last streamed list stalled: the next list is taken in pages. */
  let stalled = false;
  /** The continue token of the last list expired: the next list is requested without a limit. */
  let inconsistent = false;
  /** The server has sent a bookmark, so that silence means a dead connection. The API does not guarantee bookmarks. */
  let bookmarks = false;
  let failures = 0;
  let quickEnds = 0;
  let serverErrors = 0;
  let refusals = 0;
  /** closes the present connection, so that a new list is taken */
  let hangUp: ((why: Error) => void) | undefined;
  let health: ReflectorHealth = { state: 'listing', since: clock.wall() };

  function enter(state: ReflectorHealth['state'], lastError?: string) {
    const error = lastError ?? (state === 'following' ? undefined : health.lastError);
    health = {
      state,
      since: state === health.state ? health.since : clock.wall(),
      ...(error === undefined ? {} : { lastError: error }),
    };
  }

  async function run() {
    while (!stop.signal.aborted) {
      let openedAt: number | undefined;
      let error: unknown;
      let reaction = CLOSED;
      try {
        if (cursor === undefined) enter('listing');
        if (cursor === undefined && (!streams || stalled)) await listPages();
        await watch(() => {
          openedAt = clock.now();
        });
      } catch (caught) {
        if (stop.signal.aborted) break;
        error = caught;
        reaction = judge(error);
        enter(reaction.pause === 'refused' ? 'refused' : 'retrying', String(error));
        const fields = { err: error, reason: reaction.reason, next: reaction.next };
        if (reaction.reason === 'bug') log.error(fields, 'Mirroring failed');
        else log.debug(fields, 'Watch ended');
      }
      metrics.watchEnded?.({ resource, reason: reaction.reason, next: reaction.next });
      if (reaction.next === 'relist') cursor = undefined;
      await pause(reaction, error, openedAt);
    }
    enter('stopped');
  }

  /** The reaction by the table, adjusted by the previous errors of this reflector. */
  function judge(error: unknown): Reaction {
    let reaction = reactTo(error);
    if (cursor === undefined && streams && !stalled) {
      // Kubernetes 1.31 and older, or a disabled feature gate: the server refuses the parameter.
      if (isInvalid(error)) {
        streams = false;
        reaction = { reason: 'no-streams', next: 'relist', pause: 'none' };
      } else if (error instanceof TransportError && error.code === 'timeout') {
        stalled = true;
      }
    }
    serverErrors = error instanceof ApiError && error.status >= 500 ? serverErrors + 1 : 0;
    if (serverErrors >= SERVER_ERRORS_BEFORE_RELIST) reaction = { ...reaction, next: 'relist' };
    return reaction;
  }

  async function pause(reaction: Reaction, error: unknown, openedAt: number | undefined) {
    const lived = openedAt === undefined ? 0 : clock.now() - openedAt;
    if (lived >= timing.healthyMs) failures = 0;
    refusals = reaction.pause === 'refused' ? refusals + 1 : 0;
    if (refusals > REFUSALS_AT_START) return sleep(jittered(timing.refusedMs, 0.33, random), stop.signal, clock);
    if (reaction.pause === 'none') {
      // After a proper end no pause is needed, unless several follow each other quickly: that would be a busy loop.
      quickEnds = lived < QUICK_MS ? quickEnds + 1 : 0;
      if (quickEnds <= QUICK_ENDS_FREE) return;
    }
    failures++;
    const asked = error instanceof ApiError ? (error.retryAfterSeconds ?? 0) * 1000 : 0;
    await sleep(Math.max(backoffDelay(timing.backoff, failures, random), asked), stop.signal, clock);
  }

  async function listPages() {
    const start = clock.now();
    const objects = new Map<string, T>();
    let first: string | undefined;
    let token: string | undefined;
    const isWhole = inconsistent;
    inconsistent = false;
    do {
      try {
        const page = await client.listPage(store.resource, {
          ...query,
          limit: isWhole ? 0 : pageSize.limit,
          ...(token === undefined ? {} : { continueToken: token }),
          timeoutMs: timing.pageMs,
          signal: stop.signal,
        });
        first ??= page.resourceVersion;
        for (const object of page.items) objects.set(keyOf(object), object);
        token = page.continueToken;
      } catch (error) {
        if (!isWhole && pageSize.shrink(error)) {
          log.debug({ objects: pageSize.limit }, 'A page of the list is too large; it is requested with fewer objects');
          continue;
        }
        // The token has expired. The new one continues with the next key, from the latest state. The watch sends the
        // changes of earlier pages, since it starts at the version of the first page.
        if (!isExpired(error) || !error.continueToken || error.continueToken === token) throw error;
        token = error.continueToken;
        inconsistent = true;
      }
    } while (first === undefined || token !== undefined);
    if (!isWhole) pageSize.grow();
    fill(objects, first ?? '', 'pages', start);
    stalled = false;
  }

  function fill(objects: Map<string, T>, resourceVersion: string, mode: 'stream' | 'pages', start: number) {
    store.swap(objects.values(), resourceVersion);
    cursor = resourceVersion;
    const seconds = (clock.now() - start) / 1000;
    metrics.relisted?.({ resource, mode }, objects.size, seconds);
    log.debug({ mode, items: objects.size, seconds }, 'Listed');
  }

  /** One watch connection: first the list, if there is no cursor, then the changes. Returns when it ends properly. */
  async function watch(onOpen: () => void) {
    const start = clock.now();
    let listing = cursor === undefined ? new Map<string, T>() : undefined;
    const [shortest, longest] = timing.watchMs;
    const watchMs = shortest + random() * (longest - shortest);
    using guards = startGuards(clock, stop.signal, watchMs + timing.graceMs);
    hangUp = guards.hangUp;
    if (listing) guards.expectEventsEvery(timing.listIdleMs);
    else if (bookmarks) guards.expectEventsEvery(timing.idleMs);
    const events = client.watch(store.resource, {
      ...query,
      ...(cursor === undefined ? { sendInitialEvents: true } : { resourceVersion: cursor }),
      timeoutSeconds: Math.ceil(watchMs / 1000),
      timeoutMs: timing.openMs,
      signal: guards.signal,
      onOpen: () => {
        onOpen();
        if (!listing) enter('following');
      },
    });
    for await (const { type: verb, object } of events) {
      guards.touch();
      serverErrors = 0;
      const version = object.metadata.resourceVersion ?? '';
      metrics.watchEvent?.({ resource, type: verb });
      if (verb === 'BOOKMARK') bookmarks = true;
      if (listing) {
        if (verb !== 'BOOKMARK') {
          if (verb === 'DELETED') listing.delete(keyOf(object));
          else listing.set(keyOf(object), object);
        } else if (object.metadata.annotations?.['k8s.io/initial-events-end'] === 'true') {
          fill(listing, version, 'stream', start);
          listing = undefined;
          inconsistent = false;
          enter('following');
          guards.expectEventsEvery(timing.idleMs);
        }
        continue;
      }
      if ((compareResourceVersions(version, cursor) ?? 0) < 0) {
        throw new RestoredError(`event of version ${version} after ${cursor}`);
      }
      switch (verb) {
        case 'ADDED':
        case 'MODIFIED':
          store.set(object);
          break;
        case 'DELETED':
          store.remove(object);
          break;
        case 'BOOKMARK':
          store.progress(version);
          guards.expectEventsEvery(timing.idleMs);
          break;
        default: {
          verb satisfies never;
        }
      }
      cursor = version;
    }
    if (listing) throw new TransportError('lost', 'the stream ended before the list was complete');
  }

  const running = run().finally(() => signal?.removeEventListener('abort', follow));
  return {
    store,
    get health() {
      return health;
    },
    restart() {
      store.distrust();
      cursor = undefined;
      hangUp?.(new RestoredError('it is known from elsewhere'));
    },
    listAgain() {
      if (cursor !== undefined) hangUp?.(new ListAgainError('a new list was requested'));
      cursor = undefined;
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new DOMException('the reflector is stopped', 'AbortError'));
      await running;
    },
  };
}

/**
 * Detects connections that are open but dead: one guard for the lifetime of a watch, after which the server should have
 * ended it, and one for the time without events. An event only stores its time; the alarm compares it.
 */
function startGuards(clock: Clock, parent: AbortSignal, lifeMs: number) {
  const controller = new AbortController();
  const follow = () => controller.abort(parent.reason);
  if (parent.aborted) follow();
  else parent.addEventListener('abort', follow);
  const abort = (why: Error) => controller.abort(why);
  const hangUp = (why: string) => abort(new TransportError('timeout', why));
  const cancelLife = clock.after(lifeMs, () => hangUp('the server did not end the watch in time'));
  let idleMs: number | undefined;
  let heard = clock.now();
  let cancelIdle = () => {};

  function watchSilence() {
    if (idleMs === undefined) return;
    const left = heard + idleMs - clock.now();
    if (left <= 0) return hangUp(`silent for ${idleMs} ms`);
    cancelIdle = clock.after(left, watchSilence);
  }

  return {
    signal: controller.signal,
    hangUp: abort,
    touch() {
      heard = clock.now();
    },
    expectEventsEvery(ms: number) {
      if (ms === idleMs) return;
      cancelIdle();
      idleMs = ms;
      watchSilence();
    },
    [Symbol.dispose]() {
      cancelLife();
      cancelIdle();
      parent.removeEventListener('abort', follow);
    },
  };
}
