import { type Container, isRunning } from '../engine-port/container.ts';
import type { LogOptions } from '../engine-port/logs.ts';
import { AgentError } from './agent-error.ts';

/**
 * The runs of a container, as far as its log is concerned: an engine keeps one log over all of them, and the times of the last
 * one only. Times are Unix ms by the engine's clock.
 */
export interface Runs {
  /** the container */
  id: string;
  /** of its last run; 0 before the first one, and for the end while it runs */
  startedAt: number;
  finishedAt: number;
  /** where the log of its last run begins: between two runs, since an engine may note a start after the first line */
  begins: number;
  /** where the log of the run before begins; undefined when there was none, or it is not known */
  former?: number;
}

/** The runs of the container of a microservice once it is seen like this; the same object when nothing is new. Pure. */
export function seenRun(known: Runs | undefined, container: Container): Runs {
  const { id, startedAt } = container;
  const runs = isRunning(container);
  const finishedAt = runs ? 0 : container.finishedAt;
  /** while it runs, an engine says when the run before ended */
  const endedBefore = runs ? container.finishedAt : 0;
  if (known?.id !== id) {
    const isFirst = startedAt === 0 || (runs ? endedBefore === 0 : known !== undefined);
    return { id, startedAt, finishedAt, begins: isFirst ? 0 : between(endedBefore, startedAt) };
  }
  if (startedAt <= known.startedAt) return finishedAt === known.finishedAt ? known : { ...known, finishedAt };
  if (known.startedAt === 0) return { ...known, startedAt, finishedAt };
  const ended = known.finishedAt || endedBefore;
  return { id, startedAt, finishedAt, begins: between(ended, startedAt), former: known.begins };
}

const between = (end: number, start: number) => (end > 0 && end < start ? Math.ceil((end + start) / 2) : start);

/**
 * The options with which a log has the lines of the last run that has ended: of a container that runs, the run before. Throws
 * AgentError where there is no such run.
 */
export function ofFormerRun(
  options: LogOptions,
  container: Container | undefined,
  known: Runs | undefined,
): LogOptions {
  if (!container) throw new AgentError('CONFLICT', 'no former run: the microservice has no container on this node');
  const { begins, former } = seenRun(known, container);
  if (!isRunning(container)) return within(options, begins, Infinity);
  if (former !== undefined) return within(options, former, begins - 1);
  throw new AgentError('CONFLICT', container.generation > 1 ? REPLACED : FIRST);
}

const FIRST = 'no former run: none is known of this container; its whole log is there without previous';
const REPLACED =
  'no former run: none is known of this container, and the log of the one before went with it; the log of this one is there without previous';

function within({ since = 0, until = Infinity, tail }: LogOptions, from: number, to: number): LogOptions {
  const [first, last] = [Math.max(since, from), Math.min(until, to)];
  return { tail, ...(first > 0 && { since: first }), ...(last < Infinity && { until: last }) };
}
