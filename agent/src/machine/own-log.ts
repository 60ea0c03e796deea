import { setImmediate as nextTurn } from 'node:timers/promises';
import type { LogLine, LogOptions } from '../engine-port/logs.ts';
import { fileIdentity, linesBackwards } from './disk.ts';
import type { LogBuffer } from './log.ts';
import { logFiles } from './log-files.ts';

/** Bytes that are read of a file at once; between two reads the agent does other work. */
const BLOCK_BYTES = 256 * 1024;

/**
 * Reads what the agent itself has logged: from its files, or without any from what it keeps in memory, then what it logs from
 * now on.
 */
export function ownLogReader(sink: LogBuffer, directory: string | undefined) {
  return async function* (options: LogOptions, signal: AbortSignal): AsyncGenerator<Pick<LogLine, 'line' | 'ts'>> {
    const { until = Infinity, follow } = options;
    // Nothing can be logged between the beginning to listen and the first read of memory and newest file, which end where they end then.
    const following = follow ? sink.follow(signal) : undefined;
    const first = following?.next();
    for (const line of await lastLinesOf(blocksOf(sink, directory), options, signal)) yield { line, ts: timeOf(line) };
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

/** The last lines, which are read from the newest on until there are enough, or all of them are too old. */
async function lastLinesOf(blocks: Iterable<string[]>, options: LogOptions, signal: AbortSignal): Promise<string[]> {
  const { tail, since } = options;
  const found: string[][] = [];
  let count = 0;
  for (const block of blocks) {
    const asked = block.filter((line) => isWithin(line, options));
    found.push(asked);
    count += asked.length;
    // The clock of a machine may have been wrong for some lines.
    const isTooOld = since !== undefined && !block.some((line) => Date.parse(timeOf(line)) >= since);
    if (signal.aborted || count >= tail || (isTooOld && block.length > 0)) break;
    await nextTurn();
  }
  return found.reverse().flat().slice(-tail);
}

/** Blocks of lines, the last block first: of the files, and of the memory what a disk that takes no writes has not taken. */
function* blocksOf({ entries }: LogBuffer, directory: string | undefined): Generator<string[]> {
  const inMemory = entries.map((entry) => JSON.stringify(entry));
  const blocks = directory === undefined ? [][Symbol.iterator]() : blocksOfFiles(directory);
  const { value: newest = [] } = blocks.next();
  yield inMemory.slice(inMemory.lastIndexOf(newest.at(-1) ?? '') + 1);
  yield newest;
  yield* blocks;
}

/** A file that is renamed meanwhile is read once. */
function* blocksOfFiles(directory: string): Generator<string[], undefined> {
  const seen = new Set<string>();
  for (const { path } of logFiles(directory).reverse()) {
    try {
      const identity = fileIdentity(path) ?? '';
      if (seen.has(identity)) continue;
      seen.add(identity);
      yield* linesBackwards(path, BLOCK_BYTES);
    } catch {
      // Rotated away, or not readable: the agent says so elsewhere.
    }
  }
  return undefined;
}
