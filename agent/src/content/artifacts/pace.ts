import { type Clock, sleep } from '../../../../src/lib/clock.ts';

const SECOND = 1000;
/** Bytes a second of all pulls of artifacts together while images are pulled: enough to keep connections open. */
const BESIDE_IMAGES = 256 * 1024;

export interface PaceDependencies {
  clock: Clock;
  /** bytes a second that the machine allows; 0: any number */
  limit(): number;
  /** whether images are pulled: these come first, since microservices wait for them */
  imagesPulled(): boolean;
}

/** The pace of all pulls of artifacts together: what one of them takes, the others wait for. */
export class Pace {
  readonly #deps: PaceDependencies;
  /** when the bytes that were taken so far are paid for */
  #paidUntil = 0;

  constructor(deps: PaceDependencies) {
    this.#deps = deps;
  }

  /** Waits until so many bytes may be taken. */
  async take(bytes: number, signal: AbortSignal): Promise<void> {
    const { clock, limit, imagesPulled } = this.#deps;
    const allowed = limit() || Infinity;
    const rate = imagesPulled() ? Math.min(allowed, BESIDE_IMAGES) : allowed;
    if (rate === Infinity) return;
    const now = clock.now();
    this.#paidUntil = Math.max(this.#paidUntil, now) + (bytes / rate) * SECOND;
    if (this.#paidUntil > now) await sleep(this.#paidUntil - now, signal, clock);
  }
}
