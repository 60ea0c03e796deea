import { setTimeout as sleep } from 'node:timers/promises';

export interface WaitOptions {
  /** The awaited state, for the error: "the API server to be ready". */
  what: string;
  timeoutMs?: number;
  /** First pause between two checks; it grows up to ten times that. */
  intervalMs?: number;
  signal?: AbortSignal;
}

/**
 * Repeats a check until its result is neither undefined nor false, and returns it. A check that throws is repeated as
 * well; its last error becomes the cause of the timeout. An error with `final: true` ends the wait at once.
 */
export async function waitFor<T>(
  check: () => Promise<T | undefined | false> | T | undefined | false,
  { what, timeoutMs = 30_000, intervalMs = 20, signal }: WaitOptions,
): Promise<T> {
  const end = performance.now() + timeoutMs;
  let pause = intervalMs;
  for (;;) {
    let last: unknown;
    try {
      const answer = await check();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      if ((error as { final?: boolean }).final) throw error;
      last = error;
    }
    if (performance.now() >= end) {
      const seconds = Math.round(timeoutMs / 1000);
      const why = last instanceof Error ? `: ${last.message}` : '';
      throw new Error(`Waited ${seconds} s in vain for ${what}${why}`, { cause: last });
    }
    await sleep(pause, undefined, { signal });
    pause = Math.min(pause * 1.5, intervalMs * 10);
  }
}

/** An error that further waiting cannot resolve. */
export class FinalError extends Error {
  readonly final = true;
}
