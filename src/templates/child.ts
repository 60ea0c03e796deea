import { type ChildProcess, fork } from 'node:child_process';
import { basename, dirname, join } from 'node:path';
import { DomainError, type DomainStatus, invalid } from '../rules/errors.ts';
import {
  EXPRESSION_FAILED,
  type LookUp,
  type Rendering,
  type RenderOptions,
  RenderTimeout,
} from '../rules/renderer.ts';
import { formatPath } from '../rules/validate.ts';
import type { FromProcess, ToProcess } from './messages.ts';

type Json = Record<string, unknown>;

/** The child's file: beside this one, as source or as bundle. */
const isBundle = basename(import.meta.filename) !== 'child.ts';
const FILE = join(import.meta.dirname, isBundle ? 'skerry-templates.mjs' : 'process.ts');
/** What it may read: itself, and as source the packages that it imports. */
const READABLE = isBundle ? FILE : dirname(dirname(import.meta.dirname));
const START_MS = 10_000;

/** Starts the child, and resolves once it takes documents. */
export function startChild(heapMiB: number): Promise<ChildProcess> {
  const child = fork(FILE, [], {
    env: {},
    execArgv: [
      '--permission',
      `--allow-fs-read=${READABLE}`,
      `--max-old-space-size=${heapMiB}`,
      '--max-semi-space-size=4',
    ],
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
    serialization: 'json',
  });
  child.unref();
  child.channel?.unref();
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => fail(new Error('the process for templates does not start')), START_MS);
    const fail = (error: Error) => {
      clearTimeout(timer);
      child.kill('SIGKILL');
      reject(error);
    };
    child.once('error', fail);
    child.once('exit', (code) => fail(new Error(`the process for templates ended with code ${code}`)));
    child.once('message', () => {
      clearTimeout(timer);
      child
        .removeAllListeners('error')
        .removeAllListeners('exit')
        .on('error', () => {});
      resolve(child);
    });
  });
}

/** Lets the child render one document; kills it when that takes too long or the request ends. */
export function renderInChild(
  child: ChildProcess,
  rendering: Rendering,
  { lookUp, signal }: Pick<RenderOptions, 'lookUp' | 'signal'>,
  timeMs: number,
): Promise<Json> {
  const boundedLookUp = withinWeight(lookUp);
  /** the first look-up that failed: it has a status of its own */
  let failed: unknown;
  return new Promise<Json>((resolve, reject) => {
    const kill = (error: Error) => {
      child.kill('SIGKILL');
      finish(() => reject(error));
    };
    const finish = (then: () => void) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', abort);
      child.off('message', receive).off('exit', exited);
      then();
    };
    const timer = setTimeout(() => kill(new RenderTimeout(timeMs)), timeMs);
    const abort = () => kill(signal.reason);
    const exited = () => finish(() => reject(tooMuch('needs too much memory to render')));
    const say = (message: ToProcess) => child.connected && child.send(message, () => {});
    const receive = (message: FromProcess) => {
      if ('done' in message) finish(() => resolve(message.done));
      else if ('failed' in message) finish(() => reject(expressionFailed(message.failed, failed)));
      else if ('lookUp' in message) {
        const { lookUp: answer, filter, input } = message;
        Promise.resolve()
          .then(() => boundedLookUp(filter, input, signal))
          .then(
            (value) => say({ answer, value }),
            (error) => {
              failed ??= error;
              say({ answer, failed: error instanceof DomainError ? error.message : 'cannot be looked up now' });
            },
          );
      }
    };
    child.on('message', receive).on('exit', exited);
    signal.addEventListener('abort', abort);
    if (signal.aborted) abort();
    else if (child.exitCode !== null || child.signalCode !== null) exited();
    else say({ render: rendering });
  });
}

/** Characters of JSON that the look-ups of one document may give: 1,000 nodes, or a few of the largest applications. */
const WEIGHT = 8 * 1024 * 1024;

/** What look-ups give is serialised on the event loop of the controller, and parsed into the heap of the child. */
function withinWeight(lookUp: LookUp): LookUp {
  let left = WEIGHT;
  return async (filter, input, signal) => {
    const value = await lookUp(filter, input, signal);
    // One by one, so that a list that is far too long is not serialised to its end.
    for (const item of Array.isArray(value) ? value : [value]) {
      left -= JSON.stringify(item)?.length ?? 0;
      if (left < 0) throw invalid(`${filter}: what the document looks up has more than ${WEIGHT} characters`);
    }
    return value;
  };
}

const tooMuch = (what: string) => invalid(`the document ${what}`, undefined, EXPRESSION_FAILED);

/** The error of a document; a look-up that was refused, or that cannot be made now, keeps its own error. */
function expressionFailed(
  { path, message }: { path: readonly (string | number)[]; message: string },
  lookUp: unknown,
): unknown {
  if (lookUp !== undefined && !(lookUp instanceof DomainError)) return lookUp;
  const field = formatPath(path);
  const text = field ? `${field}: ${message}` : message;
  if (lookUp instanceof DomainError && lookUp.status === 403)
    return new DomainError<DomainStatus>(lookUp.status, lookUp.code, text, { field });
  return invalid(text, field || undefined, EXPRESSION_FAILED);
}
