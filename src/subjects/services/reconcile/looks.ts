import { type Backoff, backoffDelay } from '../../../lib/backoff.ts';

/** The pauses between looks at routers that were asked for an end and did not report since. A report leads to a look at once. */
const LOOK_AGAIN: Backoff = { baseMs: 30_000, factor: 2, maxMs: 900_000, jitter: 0.3 };

/** When services that lack ends are looked at again: less and less often, while a service lacks as many as before. */
export class Looks {
  readonly #next = new Map<string, { lacks: number; looks: number; at: number }>();
  readonly #random: () => number;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  /** Unix ms of the next look at a service that lacks so many ends; undefined for none. */
  nextAt(name: string, lacks: number, now: number): number | undefined {
    if (lacks === 0) {
      this.#next.delete(name);
      return undefined;
    }
    const known = this.#next.get(name);
    const isSame = known?.lacks === lacks;
    if (isSame && now < known.at) return known.at;
    const looks = isSame ? known.looks + 1 : 1;
    const at = now + backoffDelay(LOOK_AGAIN, looks, this.#random);
    this.#next.set(name, { lacks, looks, at });
    return at;
  }

  forget(name: string): void {
    this.#next.delete(name);
  }
}
