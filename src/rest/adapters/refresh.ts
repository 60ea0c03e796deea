import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../access/review-cache.ts';

/** Pauses between runs, in lengths of the run before: what is quick may be done often. */
const PAUSE = 4;

/**
 * Runs `load` so that every caller gets a run that began after its call: callers that wait share one. Runs take a fifth of
 * the time at most, and where they are slow one begins every `everyMs`.
 */
export function createRefresh(
  load: () => Promise<void>,
  { everyMs = 1_000, now = () => performance.now() }: { everyMs?: number; now?: () => number } = {},
): (signal: AbortSignal) => Promise<void> {
  const until = (time: number) => sleep(Math.max(0, time - now()));
  let startedAt = Number.NEGATIVE_INFINITY;
  /** the run before, and the pause after it */
  let rested: Promise<unknown> = Promise.resolve();
  let next: Promise<void> | undefined;

  async function run(): Promise<void> {
    // Also without a wait the run begins later: whoever called first has to be remembered by then.
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
      // Whoever waits hears of a failure; nobody may be left to wait.
      next.catch(() => {});
    }
    return abortable(next, signal);
  };
}
