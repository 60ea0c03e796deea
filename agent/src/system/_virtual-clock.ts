import { createVirtualTime, type VirtualTime } from '../../../hack/testing/virtual-time.ts';
import type { Clock } from '../domain/clock.ts';

/** A clock that moves only by `advance`. Sleepers are woken in order, each at its own time. */
export class VirtualClock implements Clock {
  readonly #time: VirtualTime;
  readonly #wall: () => number;

  /** `wall`: what the machine's clock says, the same unless said otherwise. */
  constructor(start = Date.parse('2026-01-01T00:00:00Z'), wall?: () => number) {
    this.#time = createVirtualTime(start);
    this.#wall = wall ?? (() => this.#time.now);
  }

  now(): number {
    return this.#time.now;
  }

  wall(): number {
    return this.#wall();
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const abort = () => end(() => reject(signal?.reason));
      const end = (outcome: () => void) => {
        cancel();
        signal?.removeEventListener('abort', abort);
        outcome();
      };
      const cancel = this.#time.after(milliseconds, () => end(resolve));
      signal?.addEventListener('abort', abort);
    });
  }

  /** Lets time pass; beside sockets it waits for the timers that are to ring (`VirtualTime`). */
  advance: VirtualTime['advance'] = (milliseconds, options) => this.#time.advance(milliseconds, options);
}
