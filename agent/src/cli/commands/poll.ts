import { sleep } from '../../../../src/lib/clock.ts';
import { CliError } from '../../local-api/client.ts';
import type { CommandContext } from './command.ts';

/** An operation of the agent, as far as every command needs it. */
export interface PolledOperation {
  operationId: string;
  status: 'running' | 'succeeded' | 'failed';
  /** 0 to 100 */
  progress?: number;
  error?: { code: string; message: string };
}

export interface PollOptions {
  /** the route of its status, without the id */
  path: string;
  /** ms that the command waits; the operation itself has no limit */
  budget: number;
  /** its name for people */
  what: string;
}

/** ms of most operations (docs/spec/agent-local-api.md#command-line) */
export const POLL_BUDGET = 30 * 60_000;
/** ms between two questions: at first, and later */
const PAUSES = { first: 250, longest: 2000 };
/** Percent between two lines of progress. */
const STEP = 10;

/** Waits until an operation has ended, and shows how far it is. Throws its error where it failed, and where the time is over. */
export async function follow<T extends PolledOperation>(
  context: CommandContext,
  begun: T,
  { path, budget, what }: PollOptions,
): Promise<T> {
  const { client, err, format, signal } = context;
  const end = performance.now() + budget;
  let operation = begun;
  let shown = 0;
  for (let pause = PAUSES.first; operation.status === 'running'; pause = Math.min(pause * 2, PAUSES.longest)) {
    if (performance.now() > end)
      throw new CliError(
        'UNAVAILABLE',
        `${what} has not ended after ${Math.round(budget / 60_000)} minutes, and continues`,
        `Its state: ${path}/${operation.operationId}`,
      );
    await sleep(pause, signal);
    signal.throwIfAborted();
    operation = await client.call<T>('GET', `${path}/${operation.operationId}`);
    const { progress = 0 } = operation;
    if (format !== 'human' || operation.status !== 'running' || progress < shown + STEP) continue;
    shown = progress - (progress % STEP);
    err(`${what}: ${shown}%\n`);
  }
  const { error } = operation;
  if (error) throw new CliError(error.code, error.message);
  return operation;
}
