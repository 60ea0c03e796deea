import { jittered } from '../../../src/lib/backoff.ts';

/**
 * The agent's time. `now` starts at the wall clock and then follows the monotonic clock, so that schedules survive a step
 * of the machine's clock. `wall` is the machine's clock.
 */
export interface Clock {
  now(): number;
  wall(): number;
  sleep(milliseconds: number, signal?: AbortSignal): Promise<void>;
}

/** A number in [0, 1). */
export type Random = () => number;

/** Sleeps, and returns early instead of throwing when the signal fires. */
export async function pause(clock: Clock, milliseconds: number, signal?: AbortSignal): Promise<void> {
  try {
    await clock.sleep(milliseconds, signal);
  } catch (error) {
    if (!signal?.aborted) throw error;
  }
}

/** A duration moved by at most a tenth either way, so that a fleet does not move as one. */
export function jitter(milliseconds: number, random: Random): number {
  return Math.round(jittered(milliseconds, 0.1, random));
}
