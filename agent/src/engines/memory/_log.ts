import { EventEmitter, once } from 'node:events';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';

/** The log of a container of a memory engine. */
export class MemoryLog {
  readonly #lines: LogLine[] = [];
  // Tests have many readers at once.
  readonly #events = new EventEmitter().setMaxListeners(0);
  readonly #isRunning: () => boolean;

  constructor(isRunning: () => boolean) {
    this.#isRunning = isRunning;
  }

  /** The container writes a line. */
  print(line: string, ts = new Date().toISOString(), stream: LogLine['stream'] = 'stdout'): void {
    this.#lines.push({ ts, stream, line });
    this.look();
  }

  /** The container may have ended. */
  look(): void {
    this.#events.emit('change');
  }

  async *read({ tail, since = -Infinity, until = Infinity, follow }: LogOptions, signal?: AbortSignal) {
    const isAsked = ({ ts }: LogLine) => Date.parse(ts) >= since && Date.parse(ts) <= until;
    let at = this.#lines.length;
    yield* this.#lines.slice(0, at).filter(isAsked).slice(-tail);
    while (follow) {
      if (signal?.aborted) return;
      const line = this.#lines[at];
      if (line) {
        at += 1;
        if (isAsked(line)) yield line;
      } else if (!this.#isRunning()) return;
      else await once(this.#events, 'change', { signal }).catch(() => {});
    }
  }
}
