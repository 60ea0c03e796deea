import { type Backoff, backoffDelay } from '../../../src/lib/backoff.ts';
import type { Random } from '../domain/jitter.ts';

/** Many agents may retry at once: a controller that starts makes early requests wait. */
const AFTER_LOSS: Backoff = { baseMs: 1_000, factor: 1.5, maxMs: 30_000, spread: 0.5 };
/** Longer, since time alone does not resolve a refusal. */
const AFTER_REFUSAL: Backoff = { baseMs: 20_000, factor: 1.5, maxMs: 300_000, spread: 0.5 };
/** Attempts with short delays: a restart of the controller takes about as long, and a longer delay would add to it. */
const QUICK = 6;

/** The delay in ms before the next attempt to reach a controller. */
export function delayAfterLoss(failures: number, random: Random): number {
  return backoffDelay(AFTER_LOSS, failures <= QUICK ? Math.min(failures, 2) : failures - QUICK + 2, random);
}

/** The delay in ms before the next attempt after a refusal. */
export function delayAfterRefusal(failures: number, random: Random): number {
  return backoffDelay(AFTER_REFUSAL, failures, random);
}
