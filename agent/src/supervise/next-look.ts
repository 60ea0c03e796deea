import { jitter, type Random } from '../domain/jitter.ts';
import type { Records } from '../domain/record.ts';
import type { Wait } from '../domain/step.ts';
import { TIMES } from './plan/backoff.ts';

const SECOND = 1000;
const LOOK_EVERY = 30 * SECOND;
const SOONEST = 20;

/** How long until the next look at the engine, ms: until something is due, or it is time to look anyway. Pure. */
export function untilNextLook(
  { waits, records, networkRetryAt }: { waits: readonly Wait[]; records: Records; networkRetryAt: number },
  now: number,
  random: Random,
): number {
  const due = [now + jitter(LOOK_EVERY, random), networkRetryAt, ...waits.map(({ until }) => until)];
  for (const { error, failure, live } of records.values())
    if (error && !failure && live.running) due.push(live.running.since + TIMES.errorClears + SECOND / 2);
  return Math.max(SOONEST, Math.min(...due.filter((at) => at > now)) - now);
}
