import type { Backoff } from './backoff.ts';
import type { Clock } from './clock.ts';

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

/** Keys to work on: merged, one at a time each, earliest due time first. */
export interface Queue extends AsyncDisposable {
  add(key: string, options?: AddOptions): void;
  /** Keys due or running, without those whose time has not come. */
  readonly depth: number;
  /** Resolves when nothing is due or running; delayed keys do not count. */
  whenIdle(): Promise<void>;
  /** Starts nothing more, forgets what is pending and resolves when what runs has ended. */
  close(): Promise<void>;
}
