import { whenAborted } from '../lib/aborted.ts';
import type { Backoff } from '../lib/backoff.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { isAlreadyExists, isConflict } from './api-error.ts';
import { FencedError } from './call.ts';
import { startDeadline } from './deadline.ts';
import type { KubeMetrics } from './metrics.ts';
import { type KubeObject, keyOf } from './object.ts';
import { delayOf, type Outcome } from './outcome.ts';
import { createQueue, type Queue } from './queue.ts';
import type { Change, Store } from './store.ts';

export interface ReconcileContext {
  /** Aborts at the deadline and on shutdown. Pass it to every call. */
  signal: AbortSignal;
  /** A log with the fields `controller`, `key` and `run`. */
  log: Log;
  /** 1 for the first attempt since the last success. */
  attempt: number;
}

/** A store whose changes lead to runs, and the function from a change to keys of this controller. See {@link watching}. */
export interface Watch {
  whenSynced(signal: AbortSignal): Promise<void>;
  /** Calls `enqueue` for all objects of the store and then for every change. */
  start(enqueue: (key: string, initial: boolean) => void): Disposable;
}

/** The keys that a change concerns. It must consider `object` and `previous`; {@link both} does. */
export type MapToKeys<T> = (change: Change<T>) => Iterable<string>;

/** Watches the controller's own objects (without `map`: the key of the object) or others that they depend on. */
export function watching<T extends KubeObject>(store: Store<T>, map: MapToKeys<T> = (change) => [change.key]): Watch {
  return {
    whenSynced: (signal) => store.whenSynced(signal),
    start(enqueue) {
      for (const object of store.list()) {
        const there: Change<T> = { type: 'set', key: keyOf(object), object, initial: true };
        for (const key of map(there)) enqueue(key, true);
      }
      return store.subscribe((change) => {
        for (const key of map(change)) enqueue(key, change.initial);
      });
    },
  };
}

/** Maps the states before and after a change, so that the keys which only the former state names are reconciled too. */
export function both<T>(keysOf: (object: T) => Iterable<string>): MapToKeys<T> {
  return (change) => [...keysOf(change.object), ...(change.previous ? keysOf(change.previous) : [])];
}

export interface ControllerOptions {
  /** The value of the log field and metric label `controller`, such as `edge-node`. */
  name: string;
  watches: readonly Watch[];
  /** Level-triggered: it gets a key, not an event. Must be idempotent. */
  reconcile: (key: string, context: ReconcileContext) => Promise<Outcome>;
  /** Maximum of keys that are reconciled at the same time; default 4. */
  concurrency?: number;
  /** The signal of a run aborts after this time; default one minute. */
  deadlineMs?: number;
  backoff?: Backoff;
  log?: Log;
  metrics?: KubeMetrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Runs `reconcile` for every key of its watches after all their stores are synced.
 *
 * - No key has two runs at the same time; a change during a run leads to another run.
 * - A run that throws is retried with backoff. Conflicts are retried without a warning.
 * - A run that ignores its deadline keeps its key and its share of the concurrency, since the key must not have two runs at
 *   the same time; `overdue` counts such runs.
 */
export interface Controller extends AsyncDisposable {
  readonly name: string;
  /** Requests a run, for causes outside of the stores. Before `run` it does nothing, since `run` reconciles all keys. */
  enqueue(key: string, options?: { afterMs?: number }): void;
  /** Starts the controller; resolves when `signal` has aborted and the last run has ended. May be called again then. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when no key is due or running. For tests. */
  whenIdle(): Promise<void>;
  /** The number of runs that have not ended although their deadline has passed. */
  readonly overdue: number;
}

/** A run that ends within this time after its deadline does not count as overdue. */
const OVERDUE_GRACE_MS = 5_000;

export function createController(options: ControllerOptions): Controller {
  const { name, watches, reconcile, deadlineMs = 60_000, clock = systemClock, metrics = {} } = options;
  const log = (options.log ?? silentLog).child({ controller: name });
  const stop = new AbortController();
  let queue: Queue | undefined;
  let ended: Promise<void> = Promise.resolve();
  let runs = 0;
  let overdue = 0;

  async function work(key: string, { failures, signal }: { failures: number; signal: AbortSignal }) {
    const started = clock.now();
    const runLog = log.child({ key, run: ++runs });
    using deadline = startDeadline(deadlineMs, signal, clock);
    using _overdue = watchOverdue(runLog);
    const report = (outcome: string) =>
      metrics.reconciled?.({ controller: name, outcome }, (clock.now() - started) / 1000);
    try {
      const outcome = await reconcile(key, { signal: deadline.signal, log: runLog, attempt: failures + 1 });
      report(outcome.type);
      runLog.debug({ outcome }, 'Reconciled');
      return delayOf(outcome);
    } catch (error) {
      const kind = signal.aborted ? 'stopped' : kindOf(error);
      report(kind);
      if (kind === 'bug') runLog.error({ err: error, attempt: failures + 1 }, 'Reconcile has a bug');
      else if (kind === 'error') runLog.warn({ err: error, attempt: failures + 1 }, 'Reconcile failed');
      else runLog.debug({ err: error, kind }, 'Reconcile to be repeated');
      throw error;
    }
  }

  function watchOverdue(runLog: Log): Disposable {
    let counted = 0;
    const count = (by: number) => {
      counted += by;
      overdue += by;
      metrics.overdue?.({ controller: name }, overdue);
    };
    const cancel = clock.after(deadlineMs + OVERDUE_GRACE_MS, () => {
      count(1);
      runLog.error({ deadlineMs }, 'Reconcile ignores its deadline');
    });
    return {
      [Symbol.dispose]() {
        cancel();
        if (counted > 0) count(-1);
      },
    };
  }

  async function run(signal: AbortSignal) {
    if (queue) throw new TypeError(`controller ${name} already runs`);
    const both = AbortSignal.any([signal, stop.signal]);
    try {
      await Promise.all(watches.map((watch) => watch.whenSynced(both)));
    } catch (error) {
      if (both.aborted) return;
      throw error;
    }
    const own = createQueue({
      work,
      ...(options.concurrency === undefined ? {} : { concurrency: options.concurrency }),
      ...(options.backoff === undefined ? {} : { backoff: options.backoff }),
      ...(options.random === undefined ? {} : { random: options.random }),
      clock,
      onDepth: (depth) => metrics.queueDepth?.({ controller: name }, depth),
      onWait: (ms) => metrics.queueWait?.({ controller: name }, ms / 1000),
    });
    queue = own;
    using subscriptions = new DisposableStack();
    try {
      for (const watch of watches) {
        subscriptions.use(watch.start((key, initial) => own.add(key, { priority: initial ? 'low' : 'normal' })));
      }
      log.debug({}, 'Controller started');
      await whenAborted(both);
    } finally {
      await own.close();
      queue = undefined;
    }
  }

  return {
    name,
    enqueue: (key, { afterMs } = {}) => queue?.add(key, afterMs === undefined ? {} : { afterMs }),
    run(signal) {
      ended = run(signal);
      return ended;
    },
    whenIdle: () => queue?.whenIdle() ?? Promise.resolve(),
    get overdue() {
      return overdue;
    },
    async [Symbol.asyncDispose]() {
      stop.abort(new DOMException('the controller is stopped', 'AbortError'));
      await ended;
    },
  };
}

/** The kind of a failure decides its log level: a conflict is normal, a bug needs a developer. */
function kindOf(error: unknown): 'conflict' | 'fenced' | 'bug' | 'error' {
  if (isConflict(error) || isAlreadyExists(error)) return 'conflict';
  if (error instanceof FencedError) return 'fenced';
  const bug = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return bug ? 'bug' : 'error';
}
