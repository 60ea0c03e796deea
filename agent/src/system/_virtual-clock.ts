import type { Clock } from '../domain/clock.ts';

/** A clock that moves only by `advance`. Sleepers are woken in order, each at its own time. */
export class VirtualClock implements Clock {
  #now: number;
  readonly #sleepers = new Set<{ at: number; wake: () => void }>();

  readonly #wall: () => number;

  /** `wall`: what the machine's clock says, the same unless said otherwise. */
  constructor(start = Date.parse('2026-01-01T00:00:00Z'), wall?: () => number) {
    this.#now = start;
    this.#wall = wall ?? (() => this.#now);
  }

  now(): number {
    return this.#now;
  }

  wall(): number {
    return this.#wall();
  }

  sleep(milliseconds: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const sleeper = { at: this.#now + Math.max(0, milliseconds), wake: () => end(resolve) };
      const abort = () => end(() => reject(signal?.reason));
      const end = (outcome: () => void) => {
        this.#sleepers.delete(sleeper);
        signal?.removeEventListener('abort', abort);
        outcome();
      };
      this.#sleepers.add(sleeper);
      signal?.addEventListener('abort', abort);
    });
  }

  /** Lets time pass. `settle` resolves when everything that was woken has done what it does without waiting. */
  async advance(milliseconds: number, settle: () => Promise<void> = turn): Promise<void> {
    const until = this.#now + milliseconds;
    for (;;) {
      await settle();
      const [next] = [...this.#sleepers].sort((a, b) => a.at - b.at);
      if (!next || next.at > until) break;
      this.#now = Math.max(this.#now, next.at);
      next.wake();
    }
    this.#now = until;
  }
}

/** One turn of the event loop: all promises that can settle have settled. */
const turn = () => new Promise<void>((resolve) => setImmediate(resolve));
