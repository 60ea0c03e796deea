import { jittered } from '../../../src/lib/backoff.ts';

/** A number in [0, 1). */
export type Random = () => number;

/** A duration moved by at most a tenth either way, so that a fleet does not move as one. */
export function jitter(milliseconds: number, random: Random): number {
  return Math.round(jittered(milliseconds, 0.1, random));
}
