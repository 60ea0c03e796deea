import type { LogLine } from '../../engine-port/logs.ts';

/** How many lines back a repeated one may be. */
const BACK = 256;
/** Of each end of a line, what tells it from another one of the same time. */
const SHOWN = 64;

/** An engine repeats the last lines of a file when it begins the next one while the log is followed: each of them counts once. */
export async function* eachOnce(lines: AsyncIterable<LogLine>): AsyncGenerator<LogLine> {
  const known = new Set<string>();
  for await (const line of lines) {
    const key = `${line.ts} ${line.stream} ${line.line.length} ${line.line.slice(0, SHOWN)} ${line.line.slice(-SHOWN)}`;
    if (known.has(key)) continue;
    known.add(key);
    const [oldest = ''] = known.size > BACK ? known : [];
    known.delete(oldest);
    yield line;
  }
}
