import type { Log } from '../../../src/lib/log.ts';
import { errorText } from '../machine/log.ts';
import type { LocalRun } from './session.ts';

/** Logs that a session begins and ends; `over` is called last. */
export function attend(
  run: Pick<LocalRun, 'done'>,
  log: Log,
  { refusal, ...about }: { refusal?: string | undefined; [key: string]: unknown },
  over: () => void,
): void {
  log.info({ ...about, refusal }, 'A session begins');
  const ended = (error?: unknown) => {
    log.info({ ...about, ...(error !== undefined && { error: errorText(error) }) }, 'A session has ended');
    over();
  };
  run.done.then(() => ended(), ended);
}
