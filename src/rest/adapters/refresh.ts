import { setTimeout as sleep } from 'node:timers/promises';
import { abortable } from '../access/answers.ts';

/**
 * Runs `load` so that every caller gets a run that began after its call: callers that wait share one, and runs begin at
 * most once in `everyMs`.
 */
export function createRefresh(
  load: () => Promise<void>,
  { everyMs = 1_000, now = () => performance.now() }: { everyMs?: number; now?: () => number } = {},
): (signal: AbortSignal) => Promise<void> {
  let startedAt = Number.NEGATIVE_INFINITY;
  let next: Promise<void> | undefined;

  async function run(): Promise<void> {
    // Also without a wait the run begins later: whoever called first has to be remembered by then.
    await sleep(Math.max(0, startedAt + everyMs - now()));
    startedAt = now();
    next = undefined;
    await load();
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
