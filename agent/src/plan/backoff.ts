import { jitter, type Random } from '../domain/clock.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Supervision's times, in milliseconds: it never gives up, it only gets slower. */
export const TIMES = {
  firstDelay: 10 * SECOND,
  longestDelay: 5 * MINUTE,
  /** so long in RUNNING and the next crash starts from the first delay again */
  steady: 10 * MINUTE,
  /** so long in RUNNING and the current error is cleared */
  errorClears: 30 * SECOND,
  /** whoever ends a container by hand may be about to start or to remove it */
  handsOff: 2 * SECOND,
  /** at most so long a microservice waits for those that start before it */
  orderWait: MINUTE,
} as const;

/** This many crashes without ten steady minutes between them are reported as STUCK_IN_RESTART. */
export const STUCK_AFTER = 5;

/** The pause before attempt `count + 1`: 10 s doubling to 5 min, with jitter. */
export function backoff(count: number, random: Random): number {
  const delay = Math.min(TIMES.firstDelay * 2 ** Math.max(0, Math.min(count, 20) - 1), TIMES.longestDelay);
  return jitter(delay, random);
}
