import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../access/review-cache.ts';

/** The pause between runs, as a multiple of the last run's duration: short runs may be frequent. */
const PAUSE = 4;

/**
 * Runs `load` so that every caller gets a run that began after its call; waiting callers share one. Runs take at most a fifth
 * of the time, and when they are slow, one begins every `everyMs`.
 */
export function createRefresh(
  load: () => Promise<void>,
  { everyMs = 1_000, now = () => performance.now() }: { everyMs?: number; now?: () => number } = {},
): (signal: AbortSignal) => Promise<void> {
  const until = (time: number) => sleep(Math.max(0, time - now()));
  let startedAt = Number.NEGATIVE_INFINITY;
  /** the last run and the pause after it */
  let rested: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | undefined;

  async function run(): Promise<void> {
    // Without a pause the run still begins later, after `next` has been set for further callers.
    await Promise.race([rested, until(startedAt + everyMs)]);
    startedAt = now();
    next = undefined;
    const began = startedAt;
    const loading = load();
    rested = loading.catch(() => {}).then(() => until(now() + PAUSE * (now() - began)));
    await loading;
  }

  return (signal) => {
    if (!next) {
      next = run();
      // Waiting callers get the failure; without any, it must not be an unhandled rejection.
      next.catch(() => {});
    }
    return abortable(next, signal);
  };
}
