import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, systemClock } from '../lib/clock.ts';
import { createDueHeap } from '../lib/due-heap.ts';
import { isTurnOver } from './turn.ts';

export interface QueueOptions {
  /**
   * Processes one key. Resolves with the delay after which the key is due again, or with undefined. A rejection is retried
   * with backoff. `failures` is the number of consecutive rejections.
   */
  work: (key: string, context: { failures: number; signal: AbortSignal }) => Promise<number | undefined>;
  concurrency?: number;
  backoff?: Backoff;
  clock?: Clock;
  random?: () => number;
  onDepth?: (depth: number) => void;
  onWait?: (ms: number) => void;
}

interface AddOptions {
  afterMs?: number;
  priority?: 'normal' | 'low';
}

/**
 * A work queue of keys.
 *
 * - Equal keys merge: the earlier of two due times applies, and the higher of two priorities.
 * - A key never has two runs at the same time; a key that is added during its run runs again afterwards.
 * - The delay of a key that fails grows with each failure, with jitter, and is reset by a success. A key that is added runs
 *   without that delay.
 * - Keys of normal priority run first, except that every eighth start takes one of low priority, so that none starves.
 */
export interface Queue extends AsyncDisposable {
  add(key: string, options?: AddOptions): void;
  /** The number of keys that are due or running, without delayed ones. */
  readonly depth: number;
  /** The number of keys in memory: due, running, delayed, or failed. */
  readonly size: number;
  /** Resolves when no key is due or running; delayed keys do not count. */
  whenIdle(): Promise<void>;
  /** Starts no further run, drops pending keys, and resolves when all runs have ended. */
  close(): Promise<void>;
}

const RECONCILE_BACKOFF: Backoff = { baseMs: 250, factor: 2, maxMs: 5 * 60_000, jitter: 0.5 };

/** One of so many starts takes a low-priority key first. */
const LOW_SHARE = 8;

/** The state of a key. It is deleted when the key is neither due nor running and has no failures. */
interface Plan {
  /** When it is due, on the monotonic clock; undefined while it runs and was not added again. */
  due: number | undefined;
  low: boolean;
  running: boolean;
  failures: number;
}

export function createQueue(options: QueueOptions): Queue {
  const { work, concurrency = 4, backoff = RECONCILE_BACKOFF, clock = systemClock, random = Math.random } = options;
  const plans = new Map<string, Plan>();
  /** Keys that are not due yet. */
  const delayed = createDueHeap();
  /** Due keys, first in, first out. Sets, so that a key is there at most once and its removal is cheap. */
  const ready = { normal: new Set<string>(), low: new Set<string>() };
  const closing = new AbortController();
  let running = 0;
  let starts = 0;
  let wake: { at: number; cancel: () => void } | undefined;
  let pumping = false;
  let idle: PromiseWithResolvers<void> | undefined;

  const depth = () => ready.normal.size + ready.low.size + running;

  /** Schedules `key` for `due`, or for its earlier due time. */
  function want(key: string, due: number, low: boolean) {
    const plan: Plan = plans.get(key) ?? { due: undefined, low, running: false, failures: 0 };
    plans.set(key, plan);
    plan.low = plan.due === undefined ? low : plan.low && low;
    plan.due = Math.min(plan.due ?? due, due);
    if (!plan.running) file(key, plan.due, plan.low);
  }

  /** Puts a key into the one collection that fits its due time and priority. */
  function file(key: string, due: number, low: boolean) {
    if (due > clock.now()) return delayed.set(key, due);
    delayed.delete(key);
    if (!low) ready.low.delete(key);
    ready[low ? 'low' : 'normal'].add(key);
  }

  /** Moves keys that have become due, starts runs up to the concurrency, and sets the alarm for the next due time. */
  function pump() {
    pumping = false;
    if (closing.signal.aborted) return;
    const now = clock.now();
    for (let next = delayed.peek(); next && next.due <= now; next = delayed.peek()) {
      file(next.key, next.due, plans.get(next.key)?.low ?? false);
    }
    while (running < concurrency) {
      const key = take();
      if (key === undefined) break;
      void start(key);
    }
    setAlarm(delayed.peek()?.due);
    options.onDepth?.(depth());
    if (depth() === 0) {
      idle?.resolve();
      idle = undefined;
    }
  }

  /** Deferred, so that a burst of adds costs one pass. */
  function schedulePump() {
    if (pumping || closing.signal.aborted) return;
    pumping = true;
    if (isTurnOver()) setImmediate(pump);
    else queueMicrotask(pump);
  }

  function take(): string | undefined {
    const lowFirst = ready.low.size > 0 && starts % LOW_SHARE === LOW_SHARE - 1;
    const lane = lowFirst || ready.normal.size === 0 ? ready.low : ready.normal;
    for (const key of lane) {
      lane.delete(key);
      starts++;
      return key;
    }
    return undefined;
  }

  async function start(key: string) {
    const plan = plans.get(key) as Plan;
    options.onWait?.(Math.max(0, clock.now() - (plan.due ?? 0)));
    plan.due = undefined;
    plan.running = true;
    running++;
    let again: number | undefined;
    try {
      again = await work(key, { failures: plan.failures, signal: closing.signal });
      plan.failures = 0;
    } catch {
      plan.failures++;
      again = backoffDelay(backoff, plan.failures, random);
    }
    running--;
    plan.running = false;
    // A key that was added during its run has `plan.due`; the earlier of that and the delay from `work` applies.
    const asked = plan.due;
    if (again !== undefined) want(key, clock.now() + again, plan.low);
    else if (asked !== undefined) file(key, asked, plan.low);
    else if (plan.failures === 0) plans.delete(key);
    schedulePump();
    if (closing.signal.aborted && running === 0) idle?.resolve();
  }

  function setAlarm(due: number | undefined) {
    if (wake?.at === due) return;
    wake?.cancel();
    wake = undefined;
    if (due === undefined) return;
    wake = {
      at: due,
      cancel: clock.after(due - clock.now(), () => {
        wake = undefined;
        pump();
      }),
    };
  }

  async function close() {
    closing.abort(new DOMException('the queue is closed', 'AbortError'));
    wake?.cancel();
    wake = undefined;
    ready.normal.clear();
    ready.low.clear();
    if (running > 0) await whenIdle();
    else idle?.resolve();
    plans.clear();
  }

  function whenIdle(): Promise<void> {
    if (depth() === 0 && !pumping) return Promise.resolve();
    idle ??= Promise.withResolvers<void>();
    return idle.promise;
  }

  return {
    add(key, { afterMs = 0, priority = 'normal' } = {}) {
      if (closing.signal.aborted) return;
      want(key, clock.now() + afterMs, priority === 'low');
      schedulePump();
    },
    get depth() {
      return depth();
    },
    get size() {
      return plans.size;
    },
    whenIdle,
    close,
    [Symbol.asyncDispose]: close,
  };
}
