import { jittered } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { isAlreadyExists, isConflict, isNotFound } from './api-error.ts';
import type { CallOptions } from './call.ts';
import type { KubeClient } from './client.ts';
import type { KubeMetrics } from './metrics.ts';
import { microTime } from './micro-time.ts';
import { compareResourceVersions, type KubeObject, type Resource } from './object.ts';
import { startReflector } from './reflector.ts';
import { createStore } from './store.ts';

export interface LeaseTimes {
  /** The time without a renewal after which others may take the lease. */
  durationMs: number;
  /** The time without a confirmed renewal after which the leader stops. Must be shorter than `durationMs`. */
  renewDeadlineMs: number;
  /** The time between attempts. */
  retryMs: number;
}

/** The holder of the lease, and the data that it published, such as its internal address. */
export interface Holder {
  identity: string;
  data: Readonly<Record<string, string>>;
}

export interface ElectionOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** Unique per process. */
  identity: string;
  /** Candidates read it as {@link Holder.data}. It is stored as JSON in the annotation `dataAnnotation`. */
  data?: Record<string, string>;
  dataAnnotation: string;
  /** Default: 15 s, 10 s, 2 s. */
  times?: LeaseTimes;
  /** The work of the leader. Must end soon after `signal` aborts; the lease is released after that. */
  onStartedLeading: (signal: AbortSignal) => Promise<void>;
  /**
   * Called when the lease is older than a state that this process has seen: the datastore was restored from a backup. The
   * holder and the candidates notice that within seconds, whereas a watch may get no events until the resource versions of
   * the datastore exceed the version from which it watches.
   */
  onWentBack?: () => void;
  log?: Log;
  metrics?: KubeMetrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Leader election by a coordination.k8s.io Lease.
 *
 * Guarantee: a leader stops at least `durationMs - renewDeadlineMs` before another may start. Assumption: the monotonic
 * clocks of all processes run at the same rate; their wall clocks need not agree.
 * Caveat: a process that is suspended beyond its deadline (a paused VM) notices that only when it continues. `isLeading`
 * reads the clock, so check it immediately before a write (see `KubeClient.fenced`).
 */
export interface Election extends AsyncDisposable {
  readonly isLeading: boolean;
  /** The holder as last seen; undefined while the lease has no holder or has expired. */
  readonly holder: Holder | undefined;
  /** The present holder, then every change. Ends when the signal aborts. */
  holders(signal: AbortSignal): AsyncIterable<Holder | undefined>;
}

export interface Lease extends KubeObject {
  spec?: {
    holderIdentity?: string;
    leaseDurationSeconds?: number;
    acquireTime?: string;
    renewTime?: string;
    leaseTransitions?: number;
  };
}

export const LEASES: Resource<Lease> = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  kind: 'Lease',
  namespaced: true,
};

const TIMES: LeaseTimes = { durationMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2_000 };
const RELEASE_ATTEMPTS = 3;

/**
 * Whether a candidate may try to take the lease. `seenAt` is when the candidate first saw this version of the lease: the
 * holder renewed it earlier, so that the lease has expired for the holder before it has for the candidate. A lease with the
 * candidate's own identity, from a term that it lost, is no exception: a candidate whose responses get lost would otherwise
 * block the lease for all others forever.
 */
export function mayTake(lease: Lease | undefined, seenAt: number, now: number): boolean {
  return !lease?.spec?.holderIdentity || now >= expiryOf(lease, seenAt);
}

const expiryOf = (lease: Lease, seenAt: number) => seenAt + (lease.spec?.leaseDurationSeconds ?? 0) * 1000;

/**
 * Takes part in the election until `signal` aborts or the election is disposed; then releases the lease.
 */
export function startElection(options: ElectionOptions, signal?: AbortSignal): Election {
  const { client, namespace, name, identity, data = {}, dataAnnotation, onStartedLeading } = options;
  const { clock = systemClock, random = Math.random, metrics = {}, times = TIMES } = options;
  if (times.renewDeadlineMs >= times.durationMs) throw new RangeError('a leader must stop before its lease runs out');
  const log = (options.log ?? silentLog).child({ lease: name, identity });
  const stop = new AbortController();
  const follow = () => stop.abort(signal?.reason);
  if (signal?.aborted) follow();
  else signal?.addEventListener('abort', follow);

  const store = createStore<Lease>({ resource: LEASES, selection: { namespace, name } });
  const observing = client.observeWrites(LEASES, store);
  const reflector = startReflector({ client, store, clock, random, ...(options.log ? { log: options.log } : {}) });
  let seenAt = clock.now();
  /** Until when a deleted lease still blocks candidates: its holder needs time to notice the deletion. */
  let deletedUntil = Number.NEGATIVE_INFINITY;
  let leadingUntil = Number.NEGATIVE_INFINITY;
  const listeners = new Set<() => void>();
  const watching = store.subscribe(({ type, object, previous }) => {
    seenAt = clock.now();
    if (type === 'delete') deletedUntil = expiryOf(object, seenAt);
    if (isOlder(type, object, previous)) announceOlder();
    for (const listener of [...listeners]) listener();
  });

  const current = () => store.get(namespace, name);
  const isLeading = () => clock.now() < leadingUntil;

  /** Resolves at the next change of the lease, after `ms`, or when `until` aborts. */
  function change(ms: number, until: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const finish = () => {
        cancel();
        listeners.delete(finish);
        until.removeEventListener('abort', finish);
        resolve();
      };
      const cancel = clock.after(ms, finish);
      listeners.add(finish);
      until.addEventListener('abort', finish);
      if (until.aborted) finish();
    });
  }

  /**
   * Writes this candidate's identity into the lease; false when another candidate was faster. Not `retryOnConflict`: a
   * conflict is a result here, and only a write of this candidate whose response was lost is retried.
   */
  async function claim(until: AbortSignal, timeoutMs: number): Promise<boolean> {
    const call = { signal: until, timeoutMs };
    for (let attempt = 1; ; attempt++) {
      const lease = current();
      const desired = claimed(lease);
      try {
        await (lease ? client.replace(LEASES, desired, call) : client.create(LEASES, desired, call));
        return true;
      } catch (error) {
        if (!isOutdated(error, lease)) throw error;
        const fresh = await readAgain(lease, call);
        // A write of this candidate whose response was lost leads to the same conflict as one of another candidate.
        if (fresh?.spec?.holderIdentity !== identity || attempt > 1) return false;
      }
    }
  }

  /** The lease as it is now, which the store has as well afterwards. `known` is what a refused or unanswered write was based on. */
  async function readAgain(known: Lease | undefined, call: CallOptions): Promise<Lease | undefined> {
    const fresh = await client.find(LEASES, { namespace, name }, call);
    if (known && wentBack(known, fresh)) goBack(fresh);
    else if (fresh) store.observe(fresh);
    return fresh;
  }

  /** etcd was restored from a backup: the known lease, own writes included, cannot be compared with the present one. */
  function goBack(fresh: Lease | undefined) {
    store.distrust();
    store.swap(fresh ? [fresh] : [], fresh?.metadata.resourceVersion ?? '0');
  }

  function announceOlder() {
    log.warn({}, 'The lease went back to an older state');
    options.onWentBack?.();
  }

  function claimed(lease: Lease | undefined): Lease {
    const renewing = lease?.spec?.holderIdentity === identity;
    const now = microTime(clock.wall());
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: {
        ...lease?.metadata,
        name,
        namespace,
        annotations: { ...lease?.metadata.annotations, [dataAnnotation]: JSON.stringify(data) },
      },
      spec: {
        ...lease?.spec,
        holderIdentity: identity,
        leaseDurationSeconds: Math.ceil(times.durationMs / 1000),
        acquireTime: renewing ? (lease?.spec?.acquireTime ?? now) : now,
        renewTime: now,
        leaseTransitions: (lease?.spec?.leaseTransitions ?? 0) + (renewing || !lease ? 0 : 1),
      },
    };
  }

  async function campaign() {
    await store.whenSynced(stop.signal).catch(() => {});
    /** The last claim failed but may have been executed. If the lease has our identity, one more claim is allowed. */
    let unheard = false;
    /** The last claim has no answer: the API server may have executed it, or execute it yet. */
    let mayHold = false;
    while (!stop.signal.aborted) {
      const now = clock.now();
      const lease = current();
      const perhapsOurs: boolean = unheard && lease?.spec?.holderIdentity === identity;
      if (!perhapsOurs && (!mayTake(lease, seenAt, now) || now < deletedUntil)) {
        // Continues when the lease is released or has expired, with jitter, so that not all candidates try at once.
        const left = (lease ? expiryOf(lease, seenAt) : deletedUntil) - now;
        await change(Math.max(0, left) + random() * times.retryMs * 0.5, stop.signal);
        continue;
      }
      // The term is measured from before the request; other candidates measure from when they see its result.
      const sentAt = clock.now();
      mayHold = true;
      try {
        const isOurs = await claim(stop.signal, times.renewDeadlineMs);
        mayHold = false;
        if (isOurs) await lead(sentAt);
        if (isOurs && stop.signal.aborted) break;
        unheard = false;
      } catch (error) {
        log.debug({ err: error }, 'Taking the lease failed');
        unheard = !perhapsOurs;
        // Requests arrive but their responses get lost. Without a pause this candidate would block healthy ones.
        if (perhapsOurs) await sleep(times.durationMs, stop.signal, clock);
      }
      await change(jittered(times.retryMs, 0.25, random), stop.signal);
    }
    if (mayHold) await release({ isKnown: false });
  }

  async function lead(sentAt: number) {
    const term = new AbortController();
    const end = () => term.abort(stop.signal.reason);
    stop.signal.addEventListener('abort', end);
    if (stop.signal.aborted) end();
    let cancelAlarm = () => {};
    const extend = (from: number) => {
      leadingUntil = from + times.renewDeadlineMs;
      cancelAlarm();
      cancelAlarm = clock.after(leadingUntil - clock.now(), () => {
        log.error({}, 'Leadership lost: the lease could not be renewed in time');
        term.abort(new DOMException('leadership lost', 'AbortError'));
      });
    };
    extend(sentAt);
    metrics.leading?.({ lease: name }, true);
    log.info({}, 'Leading');
    const work = Promise.resolve(term.signal)
      .then(onStartedLeading)
      .catch((error: unknown) => {
        if (!term.signal.aborted) log.error({ err: error }, 'Leader failed');
      })
      .finally(() => term.abort(new DOMException('the leader has ended', 'AbortError')));
    await renew(term, extend);
    await work;
    cancelAlarm();
    stop.signal.removeEventListener('abort', end);
    const expired = !isLeading();
    leadingUntil = Number.NEGATIVE_INFINITY;
    metrics.leading?.({ lease: name }, false);
    if (!expired) await release({ isKnown: true });
    log.info({}, 'No longer leading');
  }

  /** Renews until the term ends, or ends it when another candidate holds the lease. */
  async function renew(term: AbortController, extend: (from: number) => void) {
    while (!term.signal.aborted) {
      await sleep(jittered(times.retryMs, 0.1, random), term.signal, clock);
      if (term.signal.aborted) return;
      const from = clock.now();
      try {
        if (await claim(term.signal, Math.max(1, (leadingUntil - from) / 2))) {
          // A response that arrives after the end of the term does not extend it.
          if (!term.signal.aborted && isLeading()) extend(from);
        } else if (current()?.spec?.holderIdentity !== identity) {
          log.error({ holder: current()?.spec?.holderIdentity }, 'Leadership lost: somebody else holds the lease');
          leadingUntil = Number.NEGATIVE_INFINITY;
          term.abort(new DOMException('leadership lost', 'AbortError'));
        }
      } catch (error) {
        if (!term.signal.aborted) log.warn({ err: error }, 'Renewing the lease failed');
      }
    }
  }

  /**
   * Lets another candidate take over at once. Best effort. A write that the end of this candidate cut off may be executed all the
   * same: a release after a claim begins with a read, and a release that conflicts with a renewal is repeated.
   */
  async function release({ isKnown }: { isKnown: boolean }) {
    const call = { timeoutMs: times.retryMs };
    try {
      if (!isKnown) await readAgain(current(), call);
      for (let attempt = 1; ; attempt++) {
        const lease = current();
        if (lease?.spec?.holderIdentity !== identity) return;
        try {
          await client.replace(LEASES, released(lease), call);
          return;
        } catch (error) {
          if (!isOutdated(error, lease) || attempt === RELEASE_ATTEMPTS) throw error;
          await readAgain(lease, call);
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'Releasing the lease failed');
    }
  }

  const released = (lease: Lease): Lease => ({
    ...lease,
    spec: { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.wall()) },
  });

  function holder(): Holder | undefined {
    const lease = current();
    const who = lease?.spec?.holderIdentity;
    if (!lease || !who || clock.now() >= expiryOf(lease, seenAt)) return undefined;
    return { identity: who, data: parseData(lease.metadata.annotations?.[dataAnnotation]) };
  }

  const running = campaign();
  let ended: Promise<void> | undefined;
  return {
    get isLeading() {
      return isLeading();
    },
    get holder() {
      return holder();
    },
    async *holders(until) {
      let last: string | undefined;
      while (!until.aborted && !stop.signal.aborted) {
        const now = holder();
        const text = JSON.stringify(now) ?? '';
        if (text !== last) yield now;
        last = text;
        const lease = current();
        const left = now && lease ? expiryOf(lease, seenAt) - clock.now() : times.durationMs;
        await change(Math.max(1, left), until);
      }
    },
    [Symbol.asyncDispose]() {
      ended ??= (async () => {
        stop.abort(new DOMException('the election is over', 'AbortError'));
        await running;
        signal?.removeEventListener('abort', follow);
        watching[Symbol.dispose]();
        observing[Symbol.dispose]();
        await reflector[Symbol.asyncDispose]();
      })();
      return ended;
    },
  };
}

/**
 * Whether a change leads to an older state: a list, taken after a refused write or a lost connection, has an older lease or none.
 * An event of a deletion has a version of its own. A list without the lease may be due to a deletion that no event reported, and
 * counts as well: the stores are read once more than necessary.
 */
function isOlder(type: 'set' | 'delete', object: Lease, previous: Lease | undefined): boolean {
  if (!previous) return false;
  const order = compareResourceVersions(object.metadata.resourceVersion, previous.metadata.resourceVersion) ?? 1;
  return type === 'delete' ? order <= 0 : order < 0;
}

/** Whether a write was refused because the lease is another one than it was based on. */
const isOutdated = (error: unknown, known: Lease | undefined) =>
  isConflict(error) || isAlreadyExists(error) || (known !== undefined && isNotFound(error));

/** Whether the state that was read after a refused write is older than the one that the write was based on. */
const wentBack = (known: Lease, fresh: Lease | undefined) =>
  !fresh || (compareResourceVersions(fresh.metadata.resourceVersion, known.metadata.resourceVersion) ?? 0) < 0;

function parseData(text: string | undefined): Record<string, string> {
  try {
    const data: unknown = JSON.parse(text ?? '{}');
    return data !== null && typeof data === 'object' ? (data as Record<string, string>) : {};
  } catch {
    return {};
  }
}
