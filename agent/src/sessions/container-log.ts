import { type Clock, sleep } from '../../../src/lib/clock.ts';
import { lastLines } from '../domain/last-lines.ts';
import { type Container, hasRun, isRunning, runKey } from '../engine-port/container.ts';
import { EngineError } from '../engine-port/error.ts';
import type { LogLine, LogOptions, LogPort } from '../engine-port/logs.ts';

const LOOK_EVERY = 1_000;
/** Lines before those that are asked for, to count how many have the time of the last one. */
const BEFORE = 1_000;

export interface ContainerLogDependencies {
  engine: LogPort;
  clock: Clock;
  /** the container of the microservice, if it has one */
  container(): Container | undefined;
}

/**
 * How far the log of one container was read: the time of the last line, and how many lines have that time. Some engines say only
 * in which second a line was written.
 */
interface Position {
  id: string;
  ts: string;
  count: number;
}

/**
 * The log of a microservice. With `follow` it continues when the container is started again or replaced, and when the engine was
 * away, each line once.
 */
export async function* containerLog(
  { engine, clock, container }: ContainerLogDependencies,
  options: LogOptions,
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  const { follow, until } = options;
  let position: Position | undefined;
  let lastRun = '';
  let hasBegun = false;
  while (!signal.aborted) {
    const present = container();
    // A log may also end because the engine does, while the container runs on.
    if (present && hasRun(present) && (isRunning(present) || runKey(present) !== lastRun)) {
      const { id } = present;
      lastRun = runKey(present);
      try {
        if (!follow) {
          yield* engine.logs(id, options, signal);
          return;
        }
        if (!hasBegun) {
          const last = await begin(engine, id, options, signal);
          hasBegun = true;
          position = last.position;
          yield* last.lines;
        }
        // What a former container wrote last, while it is still there.
        const former = position?.id === id ? undefined : position;
        if (former)
          for await (const line of restOf(engine, former, options, signal)) {
            position = moved(position, former.id, line);
            yield line;
          }
        for await (const line of linesAfter(engine, id, position, { ...options, follow: true }, signal)) {
          position = moved(position, id, line);
          yield line;
        }
      } catch (error) {
        if (signal.aborted) return;
        if (!follow) throw error;
        // The engine was stopped, or the container was replaced meanwhile.
        lastRun = '';
      }
    }
    if (!follow || (until !== undefined && clock.wall() > until)) return;
    await sleep(LOOK_EVERY, signal, clock);
  }
}

/** The last lines until now, and where they end. */
async function begin(engine: LogPort, id: string, { tail, since, until }: LogOptions, signal: AbortSignal) {
  let position: Position | undefined;
  async function* read(): AsyncGenerator<LogLine> {
    for await (const line of engine.logs(id, { tail: tail + BEFORE, since, until }, signal)) {
      position = moved(position, id, line);
      yield line;
    }
  }
  const lines = await lastLines(read(), tail);
  return { lines, position };
}

async function* restOf(engine: LogPort, position: Position, options: LogOptions, signal: AbortSignal) {
  try {
    yield* linesAfter(engine, position.id, position, { ...options, follow: false }, signal);
  } catch (error) {
    if (!(error instanceof EngineError && error.code === 'NotFound')) throw error;
  }
}

/** The lines after a position, or all lines of a container in which there is none, and with `follow` those that come. */
async function* linesAfter(
  engine: LogPort,
  id: string,
  position: Position | undefined,
  { since, until, follow }: LogOptions,
  signal: AbortSignal,
): AsyncGenerator<LogLine> {
  const known = position?.id === id ? position : undefined;
  let again = known?.count ?? 0;
  const from = known ? Date.parse(known.ts) : since;
  for await (const line of engine.logs(id, { tail: Infinity, since: from, until, follow }, signal)) {
    const order = known ? compareTimes(line.ts, known.ts) : 1;
    if (order < 0) continue;
    if (order === 0 && again > 0) again -= 1;
    else yield line;
  }
}

function moved(position: Position | undefined, id: string, { ts }: LogLine): Position {
  const isSame = position?.id === id && position.ts === ts;
  return { id, ts, count: isSame ? position.count + 1 : 1 };
}

/** Times of one engine have one form; some have more digits than a number of milliseconds. */
function compareTimes(a: string, b: string): number {
  return Date.parse(a) - Date.parse(b) || (a === b ? 0 : a < b ? -1 : 1);
}
