import { setTimeout as sleep } from 'node:timers/promises';
import type { Clock } from '../domain/clock.ts';

/** The machine's clock. */
export function systemClock(): Clock {
  const offset = Date.now() - performance.now();
  return {
    now: () => Math.round(offset + performance.now()),
    wall: () => Date.now(),
    sleep: (milliseconds, signal) => sleep(Math.max(0, milliseconds), undefined, { signal, ref: true }),
  };
}
