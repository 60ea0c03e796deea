import { type Clock, sleep } from '../../../src/lib/clock.ts';

/** Calls listeners after each change, and waits for conditions that changes bring about. */
export class ChangeNotifier {
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns how to stop listening. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }

  /** Resolves when the condition holds, or false when it does not in time. */
  async until(condition: () => boolean, milliseconds: number, signal?: AbortSignal): Promise<boolean> {
    if (condition()) return true;
    const over = new AbortController();
    const stop = this.onChange(() => condition() && over.abort());
    try {
      await sleep(milliseconds, signal ? AbortSignal.any([over.signal, signal]) : over.signal, this.#clock);
    } finally {
      stop();
    }
    return condition();
  }
}
