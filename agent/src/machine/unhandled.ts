import type { Log } from '../../../src/lib/log.ts';
import { errorText } from './log.ts';

/** The events of `process` that this is about, and its end. */
export interface ProcessEvents {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (error: unknown) => void): unknown;
  off(event: 'unhandledRejection' | 'uncaughtException', listener: (error: unknown) => void): unknown;
  exit(code: number): void;
}

/** Time in which equal rejections have one line of the log, ms. */
const AGAIN_MS = 10_000;

/**
 * Logs and counts failures that no code of the agent handles, until it is disposed.
 *
 * A rejected promise that nothing awaits leaves one operation unfinished: the agent goes on, and its rounds look at everything
 * again. An exception that nothing catches may have left any state half changed: the process ends with code 1, the service
 * manager starts another one, and the containers run on.
 */
export function watchUnhandled(
  events: ProcessEvents,
  { log, count, now = () => performance.now() }: { log: Log; count(): void; now?(): number },
): Disposable {
  let last = { stack: '', at: Number.NEGATIVE_INFINITY };
  const onRejection = (reason: unknown) => {
    count();
    const failure = describe(reason);
    if (failure.stack === last.stack && now() - last.at < AGAIN_MS) return;
    last = { stack: failure.stack, at: now() };
    log.error(failure, 'A promise was rejected and nothing awaited it');
  };
  const onException = (error: unknown) => {
    log.error(describe(error), 'An exception was not caught: the agent ends; containers run on');
    events.exit(1);
  };
  events.on('unhandledRejection', onRejection);
  events.on('uncaughtException', onException);
  return {
    [Symbol.dispose]() {
      events.off('unhandledRejection', onRejection);
      events.off('uncaughtException', onException);
    },
  };
}

const describe = (reason: unknown) => ({
  error: errorText(reason),
  stack: (reason instanceof Error && reason.stack) || '',
});
