import type { Random } from '../domain/clock.ts';

const SECOND = 1000;
/** A restart of the controller is over after so many attempts; whoever waits long then comes back long after it. */
const QUICK = 6;

/** Half as much again each time, up to the longest, and never the same for all: ms. */
function delay(first: number, steps: number, longest: number, random: Random): number {
  return Math.min(first * 1.5 ** Math.min(steps, 10), longest) * (0.5 + random());
}

/**
 * How long an agent leaves a controller alone that it cannot reach, in ms: about a second and a half at first, then
 * longer and longer, up to half a minute. It may be many: a controller that starts lets who comes too early wait.
 */
export function delayAfterLoss(failures: number, random: Random): number {
  const steps = failures <= QUICK ? Math.min(failures - 1, 1) : failures - QUICK + 1;
  return delay(SECOND, steps, 30 * SECOND, random);
}

/** The same after a refusal: nothing that time alone would mend. */
export function delayAfterRefusal(failures: number, random: Random): number {
  return delay(20 * SECOND, failures - 1, 300 * SECOND, random);
}
