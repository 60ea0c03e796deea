import { type Clock, systemClock as monotonic } from '../../../src/lib/clock.ts';

/** The machine's clock. `now` starts at the wall clock and ignores its later steps: schedules survive them. */
export function systemClock(): Clock {
  const offset = Date.now() - performance.now();
  return { ...monotonic, now: () => Math.round(offset + performance.now()) };
}
