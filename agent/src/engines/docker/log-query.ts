import { lastLines } from '../../domain/last-lines.ts';
import type { LogLine, LogOptions } from '../../engine-port/logs.ts';

/**
 * What an engine is asked for, and how the lines are chosen from its answer. Times count to the millisecond here; some
 * engines read whole seconds. They also take the last lines of the whole log first and those until a time from these, so
 * that all lines until a time are read when it has passed. From an engine that takes lines for many that were written in
 * pieces, the whole log is read.
 */
export function logQuery(options: LogOptions, { now, losesLines }: { now: number; losesLines: boolean }) {
  const { tail, since, until, follow } = options;
  const isPast = until !== undefined && until < now;
  const isWhole = isPast || (losesLines && !follow);
  const query: Record<string, string> = {
    stdout: '1',
    stderr: '1',
    timestamps: '1',
    tail: isWhole || tail === Infinity ? 'all' : String(tail),
    ...(follow && !isPast && { follow: '1' }),
    ...(since !== undefined && { since: String(Math.floor(since / 1000)) }),
    ...(until !== undefined && { until: String(Math.ceil(until / 1000) + 1) }),
  };
  const isAsked = ({ ts }: LogLine) => {
    const at = Date.parse(ts);
    return !(at < (since ?? -Infinity) || at > (until ?? Infinity));
  };
  return {
    query,
    choose: (lines: AsyncIterable<LogLine>) =>
      isWhole ? lastOf(chosen(lines, isAsked), tail) : chosen(lines, isAsked),
  };
}

type Test = (line: LogLine) => boolean;

async function* chosen(lines: AsyncIterable<LogLine>, isAsked: Test): AsyncGenerator<LogLine> {
  for await (const line of lines) if (isAsked(line)) yield line;
}

/** The last lines of a log that ends. */
export async function* lastOf(lines: AsyncIterable<LogLine>, tail: number): AsyncGenerator<LogLine> {
  if (tail === Infinity) yield* lines;
  else yield* await lastLines(lines, tail);
}
