import type { LogLine } from '../engine-port/logs.ts';

/** Characters of lines that are kept until it is known which are the last. */
const KEPT = 4 * 1024 * 1024;

/** The last lines of a log, once it has ended: as many as were asked for, and fewer when they are long. */
export async function lastLines(lines: AsyncIterable<LogLine>, tail: number): Promise<LogLine[]> {
  const kept: LogLine[] = [];
  let size = 0;
  for await (const line of lines) {
    kept.push(line);
    size += line.line.length;
    while (kept.length > tail || size > KEPT) size -= kept.shift()?.line.length ?? 0;
  }
  return kept;
}
