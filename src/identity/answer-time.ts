import { setTimeout as wait } from 'node:timers/promises';

/**
 * Failed attempts are answered at whole multiples of this: an unknown user costs fewer requests to the API server than a known one
 * does, and nobody is to read this from the clock. More than an attempt takes where the processors are not busy.
 */
const STEP_MS = 250;

/** Milliseconds until the answer of a failed attempt that has taken `elapsedMs`. */
export const untilAnswer = (elapsedMs: number): number =>
  Math.max(1, Math.ceil(elapsedMs / STEP_MS)) * STEP_MS - elapsedMs;

/** Resolves when the failed attempt that began at `began` (`performance.now`) is to be answered. */
export const answerTime = (began: number, signal: AbortSignal): Promise<void> =>
  wait(untilAnswer(performance.now() - began), undefined, { signal });
