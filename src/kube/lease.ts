import { isAlreadyExists, isConflict, isNotFound } from './api-error.ts';
import { jittered } from './backoff.ts';
import type { KubeClient } from './client.ts';
import { type Clock, sleep, systemClock } from './clock.ts';
import { type Log, type Metrics, silentLog } from './dependencies.ts';
import { microTime } from './micro-time.ts';
import { compareResourceVersions, type KubeObject, type Resource } from './object.ts';
import { startReflector } from './reflector.ts';
import { createStore } from './store.ts';

export interface LeaseTimes {
  /** After how long without renewal others may take the lease. */
  durationMs: number;
  /** After how long without a confirmed renewal the leader stops. Must be shorter than `durationMs`. */
  renewDeadlineMs: number;
  /** Between attempts. */
  retryMs: number;
}

/** The holder of the lease, and what it published about itself (such as its internal address). */
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
  /** Readable by all candidates as {@link Holder.data}, stored in `dataAnnotation` as JSON. */
  data?: Record<string, string>;
  dataAnnotation: string;
  /** 15 s, 10 s, 2 s unless told. */
  times?: LeaseTimes;
  /** The leader's work. Must end soon after `signal` aborts; the lease is released only then. */
  onStartedLeading: (signal: AbortSignal) => Promise<void>;
  /**
   * The cluster was restored from a backup: the lease is an older one than this process has seen. Whoever holds it, or
   * wants to, notices within seconds, while watches may wait in silence until the cluster has counted as far again.
   */
  onWentBack?: () => void;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Leader election by a coordination.k8s.io Lease.
 *
 * Guarantee: on each process's own monotonic clock a leader stops `durationMs - renewDeadlineMs` before another may
 * start. Assumption: processes measure a second alike; clocks need not agree.
 * Caveat: a process that sleeps past its deadline (a paused VM) learns of it only when it runs again; `isLeading` looks
 * at the clock, so ask it (see `KubeClient.fenced`) right before writing.
 */
export interface Election extends AsyncDisposable {
  readonly isLeading: boolean;
  /** As last seen; undefined while the lease has no holder or has expired. */
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

/**
 * Whether a candidate may try to take the lease. `seenAt` is when it first saw this version of it: the holder renewed
 * earlier than that, so the lease has run out for the holder before it has for us. A lease in our own name, left from a
 * term that we lost, is no exception: a candidate whose responses get lost would otherwise keep it from all others for ever.
 */
export function mayTake(lease: Lease | undefined, seenAt: number, now: number): boolean {
  return !lease?.spec?.holderIdentity || now >= expiryOf(lease, seenAt);
}

const expiryOf = (lease: Lease, seenAt: number) => seenAt + (lease.spec?.leaseDurationSeconds ?? 0) * 1000;

/** Takes part in the election until `signal` aborts or the election is disposed; then releases the lease. */
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
  /** The lease was deleted while it had a holder, which needs time to notice. */
  let deletedUntil = Number.NEGATIVE_INFINITY;
  let leadingUntil = Number.NEGATIVE_INFINITY;
  const listeners = new Set<() => void>();
  const watching = store.subscribe(({ type, object }) => {
    seenAt = clock.now();
    if (type === 'delete') deletedUntil = expiryOf(object, seenAt);
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
   * Writes our identity into the lease as we know it; false when another candidate was faster. Not `retryOnConflict`: a
   * lost race is the answer here, and only our own write, whose response was lost, is repeated.
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
        const isGone = lease !== undefined && isNotFound(error);
        if (!isConflict(error) && !isAlreadyExists(error) && !isGone) throw error;
        const fresh = await client.find(LEASES, { namespace, name }, call);
        if (lease && wentBack(lease, fresh)) goBack(fresh);
        else if (fresh) store.observe(fresh);
        // Our own write whose response was lost looks like that of another candidate.
        if (fresh?.spec?.holderIdentity !== identity || attempt > 1) return false;
      }
    }
  }

  /** etcd was restored from a backup: what we know of the lease, our own writes to it included, is of another history. */
  function goBack(fresh: Lease | undefined) {
    log.warn({}, 'The lease went back to an older state');
    store.distrust();
    store.swap(fresh ? [fresh] : [], fresh?.metadata.resourceVersion ?? '0');
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
    /** Our last claim may have gone through without our hearing it; then the lease is ours to claim, once more. */
    let unheard = false;
    while (!stop.signal.aborted) {
      const now = clock.now();
      const lease = current();
      const perhapsOurs: boolean = unheard && lease?.spec?.holderIdentity === identity;
      if (!perhapsOurs && (!mayTake(lease, seenAt, now) || now < deletedUntil)) {
        // Woken by a release, else after the lease has run out; spread, so that not all candidates try at once.
        const left = (lease ? expiryOf(lease, seenAt) : deletedUntil) - now;
        await change(Math.max(0, left) + random() * times.retryMs * 0.5, stop.signal);
        continue;
      }
      // Counted from before the request: others count from when they see its result.
      const sentAt = clock.now();
      try {
        if (await claim(stop.signal, times.renewDeadlineMs)) {
          await lead(sentAt);
          if (stop.signal.aborted) break;
        }
        unheard = false;
      } catch (error) {
        log.debug({ err: error }, 'Taking the lease failed');
        unheard = !perhapsOurs;
        // Our requests arrive and their responses do not. Pause, or we would keep the lease from healthy candidates.
        if (perhapsOurs) await sleep(times.durationMs, stop.signal, clock);
      }
      await change(jittered(times.retryMs, 0.25, random), stop.signal);
    }
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
    if (!expired) await release();
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
          // An answer that comes after the term has ended does not revive it.
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

  /** Lets another take over at once. Only while the lease is surely ours; best effort. */
  async function release() {
    const lease = current();
    if (lease?.spec?.holderIdentity !== identity) return;
    const spec = { ...lease.spec, holderIdentity: '', leaseDurationSeconds: 1, renewTime: microTime(clock.wall()) };
    try {
      await client.replace(LEASES, { ...lease, spec }, { timeoutMs: times.retryMs });
    } catch (error) {
      log.warn({ err: error }, 'Releasing the lease failed');
    }
  }

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

/** Whether a look after a refused write shows an older state than the one that was to be written. */
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
