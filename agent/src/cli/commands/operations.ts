import { sleep } from '../../../../src/lib/clock.ts';
import { duration } from '../../../../src/terminal/output.ts';
import { CliError } from '../../local-api/client.ts';
import { systemClock } from '../../machine/clock.ts';
import type { CommandContext } from './command.ts';

/** What the command line reads of an operation. */
export interface PolledOperation {
  operationId?: string;
  status?: string;
  name?: string;
  stage?: string;
  progress?: number;
  error?: { code: string; message: string };
}

/** How an operation is waited for. */
export interface Waiting {
  /** the route that applies or pulls; the operation is below it */
  path: string;
  /** ms, unless --timeout says otherwise */
  budget: number;
  /** its name for people; absent: the name that it has itself */
  what?: string;
  /** what to do when it has failed, or is not over in time */
  hint: string;
}

const MINUTE = 60_000;
export const APPLY_BUDGET = 30 * MINUTE;
export const CONTROL_PLANE_BUDGET = 15 * MINUTE;
export const PULL_BUDGET = 6 * 60 * MINUTE;

/** An operation is asked after so often, ms. */
const POLL = 500;

/** Asks after an operation until it has ended, and says how far it is; fails with its error. */
export async function untilEnded<T extends PolledOperation>(
  context: CommandContext,
  begun: T,
  { path, budget, what, hint }: Waiting,
): Promise<T> {
  const { client, signal, err, format, isQuiet } = context;
  const clock = systemClock();
  const patience = context.budget(budget);
  const end = clock.now() + patience;
  let shown = '';
  for (let now = begun; ; ) {
    const name = what ?? now.name;
    const percent = roundedDown(now.progress);
    const far = now.stage ?? (percent ? `${percent} %` : '');
    if (format === 'human' && !isQuiet && far && far !== shown) {
      shown = far;
      err(`${name}: ${far}\n`);
    }
    if (now.status === 'failed') {
      const { code = 'INTERNAL', message = 'it failed' } = now.error ?? {};
      throw new CliError(code, `${name}: ${message}`, hint);
    }
    if (now.status !== 'running') return now;
    if (clock.now() > end)
      throw new CliError('TIMEOUT', `${name}: it is not over after ${duration(patience / 1000)}`, hint);
    await sleep(POLL, signal, clock);
    signal.throwIfAborted();
    now = await client.call<T>('GET', `${path}/${now.operationId}`);
  }
}

/** Percent between two lines of progress. */
const STEP = 10;
const roundedDown = (progress = 0) => progress - (progress % STEP);
