import { createVirtualTime, type VirtualTime } from '../../../hack/testing/virtual-time.ts';
import { type Clock, sleep } from '../../../src/lib/clock.ts';

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

  /** A peer that takes so long: rejects when its caller gives up. */
  async sleep(milliseconds: number, signal = new AbortController().signal): Promise<void> {
    await sleep(milliseconds, signal, this);
    signal.throwIfAborted();
  }

  after(milliseconds: number, callback: () => void): () => void {
    return this.#time.after(milliseconds, callback);
  }

  /** Lets time pass; beside sockets it waits for the timers that are to ring (`VirtualTime`). */
  advance: VirtualTime['advance'] = (milliseconds, options) => this.#time.advance(milliseconds, options);
}
