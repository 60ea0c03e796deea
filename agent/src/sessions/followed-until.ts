import type { Clock } from '../../../src/lib/clock.ts';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';

/** ms in which lines that were written before the end still come */
const LATE = 1_000;

/** A log of which following ends at `until`, whether a line comes then or not. */
export async function* followedUntil(
  options: LogOptions,
  { clock, signal }: { clock: Clock; signal: AbortSignal },
  read: (options: LogOptions, signal: AbortSignal) => AsyncIterable<LogLine>,
): AsyncGenerator<LogLine> {
  const { follow, until } = options;
  const left = follow && until !== undefined ? until - clock.wall() : Infinity;
  if (left === Infinity) return yield* read(options, signal);
  if (left < 0) return yield* read({ ...options, follow: false }, signal);
  const over = new AbortController();
  const cancel = clock.after(left + LATE, () => over.abort());
  try {
    yield* read(options, AbortSignal.any([signal, over.signal]));
  } finally {
    cancel();
  }
}
