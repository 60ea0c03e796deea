import { type Backoff, backoffDelay } from '../../../../src/lib/backoff.ts';
import type { Random } from '../../domain/jitter.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** Times of supervision, ms. A microservice is never given up; attempts only get slower. */
export const TIMES = {
  longestDelay: 5 * MINUTE,
  /** after so long in RUNNING the next crash starts from the first delay again */
  steady: 10 * MINUTE,
  /** after so long in RUNNING the current error is cleared */
  errorClears: 30 * SECOND,
  /** a container that another program ended is left alone for so long: it may be started or removed next */
  handsOff: 2 * SECOND,
  /** a microservice waits at most so long for those that start before it */
  orderWait: MINUTE,
} as const;

/** This many crashes without ten steady minutes between them are reported as STUCK_IN_RESTART. */
export const STUCK_AFTER = 5;

const AFTER_FAILURE: Backoff = { baseMs: 10 * SECOND, factor: 2, maxMs: TIMES.longestDelay, spread: 0.1 };

/** The pause in ms before attempt `count + 1`. */
export function backoff(count: number, random: Random): number {
  return Math.round(backoffDelay(AFTER_FAILURE, count, random));
}
