import { sleep } from '../../../../src/lib/clock.ts';
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
  /** ms */
  budget: number;
  /** what to do when it has failed, or is not over in time */
  hint: string;
}

const MINUTE = 60_000;
export const APPLY_BUDGET = 30 * MINUTE;
export const PULL_BUDGET = 6 * 60 * MINUTE;

/** An operation is asked after so often, ms. */
const POLL = 500;

/** Asks after an operation until it has ended, and says how far it is; fails with its error. */
export async function untilEnded(
  context: CommandContext,
  begun: PolledOperation,
  { path, budget, hint }: Waiting,
): Promise<PolledOperation> {
  const { client, signal, err, format } = context;
  const clock = systemClock();
  const end = clock.now() + budget;
  let shown = '';
  for (let now = begun; ; ) {
    const far = now.stage ?? (now.progress ? `${now.progress} %` : '');
    if (format === 'human' && far && far !== shown) {
      shown = far;
      err(`${now.name}: ${far}\n`);
    }
    if (now.status === 'failed') {
      const { code = 'INTERNAL', message = 'it failed' } = now.error ?? {};
      throw new CliError(code, `${now.name}: ${message}`, hint);
    }
    if (now.status !== 'running') return now;
    if (clock.now() > end)
      throw new CliError('TIMEOUT', `${now.name}: it is not over after ${Math.round(budget / MINUTE)} minutes`, hint);
    await sleep(POLL, signal, clock);
    signal.throwIfAborted();
    now = await client.call<PolledOperation>('GET', `${path}/${now.operationId}`);
  }
}
