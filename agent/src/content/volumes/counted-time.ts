import type { Clock } from '../../../../src/lib/clock.ts';

/**
 * Milliseconds that agents of this machine have run while the desired state was known: the sum over their
 * processes, each of which begins with what the one before has saved. It follows no clock that can be set, so that neither a
 * machine that wakes up in 1970 nor a day that is set ahead brings anything forward. Time that no agent saved, or
 * that none ran, is lost, which only makes things later.
 */
export class CountedTime {
  readonly #clock: Pick<Clock, 'now'>;
  #total: number;
  #seenAt: number;
  /** whether the time since then counts */
  #counts = false;

  constructor(saved: string | undefined, clock: Pick<Clock, 'now'>) {
    const total = Number(saved ?? 0);
    this.#total = Number.isFinite(total) && total > 0 ? total : 0;
    this.#clock = clock;
    this.#seenAt = clock.now();
  }

  /** Adds the time since the last call, if it counts, and says whether that from now on does. */
  advance(counts: boolean): number {
    const now = this.#clock.now();
    if (this.#counts) this.#total += Math.max(0, now - this.#seenAt);
    this.#seenAt = now;
    this.#counts = counts;
    return this.#total;
  }
}
