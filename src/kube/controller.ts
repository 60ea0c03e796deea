import { isAlreadyExists, isConflict } from './api-error.ts';
import type { Backoff } from './backoff.ts';
import { FencedError } from './client.ts';
import { type Clock, systemClock } from './clock.ts';
import { startDeadline } from './deadline.ts';
import { type Log, type Metrics, silentLog } from './dependencies.ts';
import { type KubeObject, keyOf } from './object.ts';
import { delayOf, type Outcome } from './outcome.ts';
import { createQueue, type Queue } from './queue.ts';
import type { Change, Store } from './store.ts';

export interface ReconcileContext {
  /** Aborts at the deadline and on shutdown. Hand it to every call. */
  signal: AbortSignal;
  /** Carries controller, key and a run id. */
  log: Log;
  /** 1 for the first attempt since the last success. */
  attempt: number;
}

/** A store to listen to and how its changes translate to keys of this controller. Made by {@link watching}. */
export interface Watch {
  whenSynced(signal: AbortSignal): Promise<void>;
  /** Calls `enqueue` for all that is there and then for every change. */
  start(enqueue: (key: string, initial: boolean) => void): Disposable;
}

/** The keys a change of another object touches. Look at `object` and `previous` both: {@link both} helps. */
export type MapToKeys<T> = (change: Change<T>) => Iterable<string>;

/** Own objects (`map` left out: the object's own key) or others that matter to ours. */
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

/** Maps the state before and the state after a change alike, so that what was left is reconciled as well. */
export function both<T>(keysOf: (object: T) => Iterable<string>): MapToKeys<T> {
  return (change) => [...keysOf(change.object), ...(change.previous ? keysOf(change.previous) : [])];
}

export interface ControllerOptions {
  /** Folder path, log key and metric label in one: `edge-node`. */
  name: string;
  watches: readonly Watch[];
  /** Level-triggered: gets a key, never an event. Must be idempotent. */
  reconcile: (key: string, context: ReconcileContext) => Promise<Outcome>;
  /** How many keys at once. 4 unless told. */
  concurrency?: number;
  /** After which a run's signal aborts. A minute unless told. */
  deadlineMs?: number;
  backoff?: Backoff;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Runs `reconcile` for every key that its watches name, once all their stores are synced.
 *
 * - Never one key twice at a time; a change during a run leads to another run.
 * - What it throws is retried with backoff. Conflicts are retried in silence.
 * - A run that ignores its deadline keeps its key and its place, since a second run of the key at once would break the
 *   first promise; `overdue` tells.
 */
export interface Controller extends AsyncDisposable {
  readonly name: string;
  /** Asks for a run, for causes that no store shows. Before `run` it does nothing: the start reconciles all. */
  enqueue(key: string, options?: { afterMs?: number }): void;
  /** Starts and resolves when `signal` aborted and the last run ended. May be called again then. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is due or running. For tests. */
  whenIdle(): Promise<void>;
  /** Runs past their deadline that still hold their key. */
  readonly overdue: number;
}

/** After the deadline a run gets this long to notice before it counts as overdue. */
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
      if (outcome.type === 'stall') runLog.info({ reason: outcome.reason }, 'Stalled');
      else runLog.debug({ outcome }, 'Reconciled');
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
      log.info({}, 'Controller started');
      await aborted(both);
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

/** How loud a failure is: a conflict is normal life, a bug wants a developer. */
function kindOf(error: unknown): 'conflict' | 'fenced' | 'bug' | 'error' {
  if (isConflict(error) || isAlreadyExists(error)) return 'conflict';
  if (error instanceof FencedError) return 'fenced';
  const bug = error instanceof TypeError || error instanceof RangeError || error instanceof ReferenceError;
  return bug ? 'bug' : 'error';
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
