import type { Clock } from '../../../../src/lib/clock.ts';
import { jitter, type Random } from '../../domain/jitter.ts';
import type { StepResult } from '../plan/step-result.ts';

const SECOND = 1000;

/** When the network may be made again after a failure. It belongs to no microservice, so no record knows of it. */
export class NetworkRetry {
  readonly #deps: { clock: Clock; random: Random };
  #failures = 0;
  #notBefore = 0;
  #problem = '';

  constructor(deps: { clock: Clock; random: Random }) {
    this.#deps = deps;
  }

  /** When the next attempt is due; 0: at once. */
  get notBefore(): number {
    return this.#notBefore;
  }

  /** Why the last attempt failed, for people. */
  get problem(): string {
    return this.#problem;
  }

  note(result: StepResult): void {
    const { clock, random } = this.#deps;
    this.#failures = result.ok ? 0 : this.#failures + 1;
    this.#problem = result.ok ? '' : result.message;
    const delay = Math.min(5 * SECOND * 2 ** Math.min(this.#failures - 1, 6), 300 * SECOND);
    this.#notBefore = result.ok ? 0 : clock.now() + jitter(delay, random);
  }
}
