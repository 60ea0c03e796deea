import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import { readTail } from './disk.ts';
import type { LogBuffer } from './log.ts';
import { logFiles } from './log-files.ts';

/** Bytes that are read of the end of each file. */
const READ_BYTES = 4 * 1024 * 1024;

/**
 * Reads what the agent itself has logged: from its files, or without any from what it keeps in memory, then what it logs from
 * now on.
 */
export function ownLogReader(sink: LogBuffer, directory: string | undefined) {
  return async function* (options: LogOptions, signal: AbortSignal): AsyncGenerator<Pick<LogLine, 'line' | 'ts'>> {
    const { tail, until = Infinity, follow } = options;
    // Nothing can be logged between the beginning to listen and the reading of the files.
    const following = follow ? sink.follow(signal) : undefined;
    const first = following?.next();
    const isAsked = (line: string) => isWithin(line, options);
    for (const line of directory ? linesOfFiles(directory, isAsked, tail) : linesOfSink(sink, isAsked, tail))
      yield { line, ts: timeOf(line) };
    if (!following || !first) return;
    for (let next = await first; !next.done; next = await following.next()) {
      if (Date.parse(next.value.timestamp) > until) return;
      yield { line: JSON.stringify(next.value), ts: next.value.timestamp };
    }
  };
}

function isWithin(line: string, { since = -Infinity, until = Infinity }: LogOptions): boolean {
  const at = Date.parse(timeOf(line));
  return !(at < since || at > until);
}

function timeOf(line: string): string {
  return /"timestamp":"([^"]*)"/.exec(line)?.[1] ?? '';
}

function linesOfSink({ entries }: LogBuffer, isAsked: (line: string) => boolean, tail: number): string[] {
  return entries
    .map((entry) => JSON.stringify(entry))
    .filter(isAsked)
    .slice(-tail);
}

/** The last lines of all files, which are read from the newest on until there are enough. */
function linesOfFiles(directory: string, isAsked: (line: string) => boolean, tail: number): string[] {
  let lines: string[] = [];
  for (const { path } of logFiles(directory).reverse()) {
    lines = [...linesOf(path).filter(isAsked), ...lines].slice(-tail);
    if (lines.length >= tail) break;
  }
  return lines;
}

function linesOf(path: string): string[] {
  try {
    return readTail(path, READ_BYTES).split('\n').filter(Boolean);
  } catch {
    // Rotated away, or not readable: the agent says so elsewhere.
    return [];
  }
}
