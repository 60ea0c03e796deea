import { type Backoff, backoffDelay } from '../../../../src/lib/backoff.ts';
import type { Clock } from '../../../../src/lib/clock.ts';
import type { Random } from '../../domain/jitter.ts';
import type { ArtifactFailure } from './plan.ts';

const RETRY: Backoff = { baseMs: 10_000, factor: 2, maxMs: 300_000, spread: 0.1 };

/** Attempts that failed and have not succeeded since, by what was attempted. */
export class Failures {
  readonly #deps: { clock: Clock; random: Random };
  readonly #failures = new Map<string, ArtifactFailure>();

  constructor(deps: { clock: Clock; random: Random }) {
    this.#deps = deps;
  }

  get all(): ReadonlyMap<string, ArtifactFailure> {
    return this.#failures;
  }

  get lacksRoom(): boolean {
    return [...this.#failures.values()].some(({ lacksRoom }) => lacksRoom);
  }

  /** Notes a failure; the next attempt is due later each time, and never before the other side wants it (`retryAfter`, ms). */
  note(key: string, failed: Omit<ArtifactFailure, 'count' | 'notBefore'>, retryAfter = 0): void {
    const { clock, random } = this.#deps;
    const former = this.#failures.get(key);
    const count = former?.asked === failed.asked ? former.count + 1 : 1;
    const delay = Math.round(backoffDelay(RETRY, count, random));
    this.#failures.set(key, { ...failed, count, notBefore: clock.now() + Math.max(delay, retryAfter) });
  }

  forget(key: string): void {
    this.#failures.delete(key);
  }

  /** Forgets those that `which` selects, so that they are tried again at once. */
  forgetAll(which: (key: string, failure: ArtifactFailure) => boolean): void {
    for (const [key, failure] of this.#failures) if (which(key, failure)) this.#failures.delete(key);
  }

  /** When the next attempt is due. */
  nextDue(now: number): number {
    return Math.min(...[...this.#failures.values()].map(({ notBefore }) => notBefore).filter((at) => at > now));
  }
}
