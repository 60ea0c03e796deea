import type { Random } from '../clock.ts';

const SECOND = 1000;
/** A restart of the controller is over after so many attempts; whoever waits long then comes back long after it. */
const QUICK = 6;

/**
 * How long an agent leaves a controller alone that it cannot reach, in ms: about a second and a half at first, then
 * longer and longer, up to half a minute. It may be many: a controller that starts lets who comes too early wait.
 */
export function delayAfterLoss(failures: number, random: Random): number {
  const grown = failures <= QUICK ? Math.min(failures - 1, 1) : failures - QUICK + 1;
  return Math.min(SECOND * 1.5 ** Math.min(grown, 10), 30 * SECOND) * (0.5 + random());
}

/** The same after a refusal: nothing that time alone would mend. */
export function delayAfterRefusal(failures: number, random: Random): number {
  return Math.min(20 * SECOND * 1.5 ** Math.min(failures - 1, 10), 300 * SECOND) * (0.5 + random());
}
