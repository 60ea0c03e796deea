import type { Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { LogEnd, TextLine } from '../../../src/session-client/read-log.ts';
import { momentOf } from '../../../src/terminal/moment.ts';
import { line as oneLine } from '../../../src/terminal/safe.ts';
import { LOG_TAIL } from '../../../src/wire/sessions.ts';
import type { Command, CommandContext } from '../context/command.ts';
import {
  CONTROLLER_DETAILS,
  CONTROLLER_FLAGS,
  type ControllerAccess,
  controllerOf,
  sessionRefusal,
} from '../context/controller.ts';
import { UnreachableError, UsageError } from '../context/errors.ts';
import { createNotices } from '../context/notices.ts';
import {
  CONTAINER_FLAG,
  completeTargets,
  logTargets,
  type SessionPaths,
  selectedTargets,
  withContainer,
} from '../objects/targets.ts';

/** Logs that are followed at once: an address may open so many sockets in a minute. */
const FOLLOWED = 50;
/** ms without a connection after which a log is no longer followed, and between attempts. */
const PATIENCE = 5 * 60_000;
const [FIRST_PAUSE, LONGEST_PAUSE] = [1_000, 10_000];

export const logs: Command = {
  name: 'logs',
  usage: 'APP[/MS]... | node/NAME... | --selector LABELS',
  about: 'Show what microservices wrote, or the log of the agent of a node',
  details: [
    `The last ${LOG_TAIL.usual} lines, or with --since all since then, at most ${LOG_TAIL.most}. Of several, each line begins with the name of its microservice.`,
    '--follow goes on when a container starts again, and when the connection was lost. It has the lines of a container before its restart; those of one that was replaced are gone.',
    'Logs need no container that runs: they are those of the last one; one that never started has the error of its start. --previous has the run before the present one, of a container that does not run its last run.',
    ...CONTROLLER_DETAILS,
  ],
  examples: [
    'logs -f plant-a/reader',
    'logs plant-a --since 10m',
    'logs node/gw-1 --tail 500',
    'logs -p plant-a/reader',
    'logs -f -l site=north',
  ],
  flags: {
    follow: { short: 'f', about: 'go on until Ctrl-C' },
    tail: { value: 'LINES', about: `lines from the end, -1: ${LOG_TAIL.most}` },
    since: {
      value: 'TIME',
      about: 'not before this long ago, such as 90s, 10m, 1h30m, 1d, or a date and time',
    },
    'since-time': {
      value: 'TIME',
      about: 'not before this date and time, such as 2026-05-01T10:00:00Z',
    },
    prefix: { about: 'begin each line with the name of its microservice, also of one alone' },
    timestamps: { about: 'begin each line with its time' },
    selector: {
      short: 'l',
      value: 'LABELS',
      about: 'all microservices of applications with these labels',
    },
    previous: { short: 'p', about: 'of the last run that has ended: see above' },
    ...CONTAINER_FLAG,
    ...CONTROLLER_FLAGS,
  },
  words: { max: Number.POSITIVE_INFINITY },
  complete: (context) => completeTargets(context, true),
  async run(context) {
    const { words, flags, signal } = context;
    const selector = flags.selector as string | undefined;
    if ((words.length === 0) === (selector === undefined))
      throw new UsageError('logs needs either names (APP, APP/MS or node/NAME) or --selector LABELS');
    if (flags.previous && flags.follow) throw new UsageError('logs needs one of --follow and --previous, not both');
    if (flags.since !== undefined && flags['since-time'] !== undefined)
      throw new UsageError('logs needs one of --since and --since-time, not both');
    const query = logQuery(context);
    const controller = await controllerOf(context);
    const targets =
      selector === undefined
        ? await logTargets(
            context,
            words.map((word) => withContainer(word, flags)),
          )
        : await selectedTargets(context, selector);
    if (flags.follow && targets.length > FOLLOWED)
      throw new UsageError(`${targets.length} logs are more than the ${FOLLOWED} that can be followed at once`);
    const shown = targets.map((one) =>
      follower(context, controller, one, query, flags.prefix === true || targets.length > 1),
    );
    const ended = flags.follow ? await Promise.all(shown.map((show) => show())) : await inTurn(shown);
    if (signal.aborted) return context.exitWith(130);
    if (ended.includes(false)) context.exitWith(1);
  },
};

async function inTurn<T>(all: readonly (() => Promise<T>)[]): Promise<T[]> {
  const results: T[] = [];
  for (const one of all) results.push(await one());
  return results;
}

function logQuery({ flags, now }: CommandContext): URLSearchParams {
  const since = flags.since ?? flags['since-time'];
  const named = flags.since === undefined ? 'since-time' : 'since';
  const tail = flags.tail ?? (since === undefined ? String(LOG_TAIL.usual) : '-1');
  const lines = tail === '-1' ? LOG_TAIL.most : /^\d{1,5}$/.test(String(tail)) ? Number(tail) : 0;
  if (lines < LOG_TAIL.least || lines > LOG_TAIL.most)
    throw new UsageError(`--tail "${tail}" must be a number from ${LOG_TAIL.least} to ${LOG_TAIL.most}, or -1`);
  const query = new URLSearchParams({ tail: String(lines), follow: String(flags.follow === true) });
  if (flags.previous) query.set('previous', 'true');
  if (since === undefined) return query;
  const at = momentOf(String(since), now());
  if (at === undefined)
    throw new UsageError(
      `--${named} "${String(since)}" must be a date and time such as 2026-05-01T10:00:00Z, or a duration such as 90s, 10m, 1h30m, 1d`,
    );
  query.set('since', at);
  return query;
}

/** The position in a log: the time of the last line, and how many lines have it. */
interface Position {
  at: number;
  count: number;
}

/** Shows one log; resolves with whether it succeeded. */
function follower(
  context: CommandContext,
  controller: ControllerAccess,
  { name, logs: path }: SessionPaths,
  query: URLSearchParams,
  hasPrefix: boolean,
): () => Promise<boolean> {
  const { streams, flags, err, signal, now } = context;
  const prefix = hasPrefix ? `[${oneLine(name)}] ` : '';
  const notices = createNotices(context, prefix);
  const fail = (text: string) => {
    err(`error: ${prefix}${text}\n`);
    return false;
  };
  let position: Position | undefined;
  /** lines that come once more after a new connection */
  let again: Position | undefined;

  function line({ text, at }: TextLine): Promise<void> | undefined {
    if (again && at === again.at && again.count > 0) {
      again.count -= 1;
      return undefined;
    }
    if (at !== undefined) position = { at, count: position?.at === at ? position.count + 1 : 1 };
    const time = flags.timestamps && at !== undefined ? `${new Date(at).toISOString()} ` : '';
    // The text as it is, as with kubectl logs: what a container wrote may be meant for a terminal.
    return write(streams.output, `${prefix}${time}${text}\n`);
  }

  async function once(): Promise<LogEnd> {
    const { readLog } = await import('../../../src/session-client/read-log.ts');
    const asked = new URLSearchParams(query);
    again = position && { ...position };
    if (position) {
      asked.set('since', new Date(position.at).toISOString());
      asked.set('tail', String(LOG_TAIL.most));
    }
    const problem = (text: string) => err(`${prefix}${oneLine(text)}\n`);
    const request = await controller.socket(path, asked).catch(endOf);
    if ('code' in request) return request;
    return readLog(request, { line, problem, notice: notices.show, isPrevious: flags.previous === true }, signal);
  }

  const isWhole = (end: LogEnd) => end.isComplete && !(flags.follow ? end.isProblem : end.hasGaps);
  /** What is not followed is not shown twice, but may wait for its turn. */
  const mayRepeat = (end: LogEnd) => (flags.follow ? isTransient(end) : end.status === 429);

  return async () => {
    let pause = FIRST_PAUSE;
    let lostAt: number | undefined;
    try {
      for (;;) {
        const before = position;
        const end = await once();
        if (signal.aborted) return true;
        // What is said of a replica that ends is no reason to stop.
        if (end.isComplete || (end.isProblem && !isTransient(end))) return isWhole(end);
        if (position !== before) [pause, lostAt] = [FIRST_PAUSE, undefined];
        lostAt ??= now();
        if (!mayRepeat(end) || now() - lostAt > PATIENCE) return fail(sessionRefusal(end));
        if (pause === FIRST_PAUSE) err(`${prefix}${sessionRefusal(end)}; it is opened again\n`);
        await delay((end.retryAfter ?? 0) * 1000 || pause * (0.75 + Math.random() / 2), undefined, { signal });
        pause = Math.min(pause * 2, LONGEST_PAUSE);
      }
    } catch (error) {
      if (signal.aborted) return true;
      return fail((error as Error).message);
    } finally {
      notices.end();
    }
  };
}

/** How a log ended whose controller could not be reached: as one whose connection was lost. */
function endOf(error: Error): LogEnd {
  if (!(error instanceof UnreachableError)) throw error;
  return { code: 1006, reason: error.message, isComplete: false, isProblem: false, hasGaps: false };
}

/** Whether another attempt may succeed. */
const isTransient = ({ code, status }: LogEnd) =>
  status === undefined ? [1001, 1006, 1011, 1012, 1013].includes(code) : status === 429 || status >= 502;

/** Streams that take nothing at present, and until when: followers share them. */
const full = new WeakMap<Writable, Promise<void>>();

/** Nothing while there is room; else resolves once there is. */
function write(to: Writable, text: string): Promise<void> | undefined {
  if (to.write(text)) return undefined;
  const known = full.get(to);
  if (known) return known;
  const room = new Promise<void>((resolve) => {
    const go = () => {
      to.off('drain', go).off('close', go);
      full.delete(to);
      resolve();
    };
    to.on('drain', go).on('close', go);
  });
  full.set(to, room);
  return room;
}
