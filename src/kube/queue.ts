import { type Backoff, backoffDelay } from './backoff.ts';
import { type Clock, systemClock } from './clock.ts';
import { createDueHeap } from './due-heap.ts';

export interface QueueOptions {
  /**
   * Works on one key. Returns the delay after which the key is due again, or nothing. A rejection is retried with
   * backoff. `failures` counts consecutive rejections so far.
   */
  work: (key: string, context: { failures: number; signal: AbortSignal }) => Promise<number | undefined>;
  concurrency?: number;
  backoff?: Backoff;
  clock?: Clock;
  random?: () => number;
  onDepth?: (depth: number) => void;
  onWait?: (ms: number) => void;
}

export interface AddOptions {
  afterMs?: number;
  priority?: 'normal' | 'low';
}

/**
 * Keys to work on.
 *
 * - Equal keys merge; of two due times the earlier wins, of two priorities the higher.
 * - A key never runs twice at once; added while it runs, it runs again afterwards.
 * - A failing key waits longer each time, with jitter, and starts afresh after a success. A change does not wait for it.
 * - Low priority waits for normal, except that every eighth start takes a low one, so that none starves.
 */
export interface Queue extends AsyncDisposable {
  add(key: string, options?: AddOptions): void;
  /** Keys due or running, without those whose time has not come. */
  readonly depth: number;
  /** Keys of which anything is known: due, running, delayed, or failed. The others cost nothing. */
  readonly size: number;
  /** Resolves when nothing is due or running; delayed keys do not count. */
  whenIdle(): Promise<void>;
  /** Starts nothing more, forgets what is pending and resolves when what runs has ended. */
  close(): Promise<void>;
}

export const RECONCILE_BACKOFF: Backoff = { baseMs: 250, factor: 2, maxMs: 5 * 60_000, jitter: 0.5 };

/** Every how many starts a low-priority key goes first. */
const LOW_SHARE = 8;

/** What we know of a key. Keys without failures and plans are forgotten. */
interface Plan {
  /** When it is due, on the monotonic clock; undefined while it runs and nobody asked for more. */
  due: number | undefined;
  low: boolean;
  running: boolean;
  failures: number;
}

export function createQueue(options: QueueOptions): Queue {
  const { work, concurrency = 4, backoff = RECONCILE_BACKOFF, clock = systemClock, random = Math.random } = options;
  const plans = new Map<string, Plan>();
  /** Keys whose time has not come. */
  const delayed = createDueHeap();
  /** Due keys, first come first served. Sets, so that a key is there once and leaves cheaply. */
  const ready = { normal: new Set<string>(), low: new Set<string>() };
  const closing = new AbortController();
  let running = 0;
  let starts = 0;
  let wake: { at: number; cancel: () => void } | undefined;
  let pumping = false;
  let idle: PromiseWithResolvers<void> | undefined;

  const depth = () => ready.normal.size + ready.low.size + running;

  /** Notes that `key` wants to run at `due`, and files it. */
  function want(key: string, due: number, low: boolean) {
    const plan: Plan = plans.get(key) ?? { due: undefined, low, running: false, failures: 0 };
    plans.set(key, plan);
    plan.low = plan.due === undefined ? low : plan.low && low;
    plan.due = Math.min(plan.due ?? due, due);
    if (!plan.running) file(key, plan.due, plan.low);
  }

  /** Puts a key where its time and priority say, and nowhere else. */
  function file(key: string, due: number, low: boolean) {
    if (due > clock.now()) return delayed.set(key, due);
    delayed.delete(key);
    if (!low) ready.low.delete(key);
    ready[low ? 'low' : 'normal'].add(key);
  }

  /** Moves what has become due, starts what may start, and sets the alarm for the rest. */
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

  /** Later rather than now, so that a burst of adds costs one pass. */
  function schedulePump() {
    if (pumping || closing.signal.aborted) return;
    pumping = true;
    queueMicrotask(pump);
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
    // Asked for while it ran: `plan.due` is set. Its own wish merges with that, the earlier wins.
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
