import type { Random } from '../domain/clock.ts';

const SECOND = 1000;
/** Attempts with short delays: a restart of the controller takes about as long, and a longer delay would add to it. */
const QUICK = 6;

/** A delay in ms that grows by half each time, up to the longest, with jitter. */
function delay(first: number, steps: number, longest: number, random: Random): number {
  return Math.min(first * 1.5 ** Math.min(steps, 10), longest) * (0.5 + random());
}

/**
 * The delay in ms before the next attempt to reach a controller: about a second and a half at first, then growing to half
 * a minute. Many agents may retry at once: a controller that starts makes early requests wait.
 */
export function delayAfterLoss(failures: number, random: Random): number {
  const steps = failures <= QUICK ? Math.min(failures - 1, 1) : failures - QUICK + 1;
  return delay(SECOND, steps, 30 * SECOND, random);
}

/** The delay after a refusal, which is longer since time alone does not resolve it. */
export function delayAfterRefusal(failures: number, random: Random): number {
  return delay(20 * SECOND, failures - 1, 300 * SECOND, random);
}
