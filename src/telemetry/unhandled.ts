import { type Logger, stdSerializers } from 'pino';
import { createRepeats } from './log.ts';

/** The events of `process` that this is about, and its end. */
export interface ProcessEvents {
  on(event: 'unhandledRejection' | 'uncaughtException', listener: (error: unknown) => void): unknown;
  exit(code: number): void;
}

/**
 * Logs and counts failures that no code of the process handles.
 *
 * A rejected promise that nothing awaits leaves one operation unfinished, and all others as they were: the process goes on,
 * so that no request can end a replica. An exception that nothing catches may have left any state half changed: the process
 * ends with code 1, and whoever supervises it starts another one.
 */
export function watchUnhandled(
  events: ProcessEvents,
  { log, metrics }: { log: Logger; metrics: { unhandledRejection(): void } },
): void {
  const isRepeated = createRepeats();
  events.on('unhandledRejection', (reason) => {
    metrics.unhandledRejection();
    const failure = describe(reason);
    const alike = isRepeated(failure.stack);
    if (alike === undefined) return;
    log.error({ failure, ...(alike > 0 && { alike }) }, 'A promise was rejected and nothing awaited it');
  });
  events.on('uncaughtException', (error) => {
    log.fatal({ failure: describe(error) }, 'An exception was not caught: the process ends');
    events.exit(1);
  });
}

/** With the causes: the last one often names the connection. Not as `err`, whose stack is left out for errors of other programs. */
function describe(reason: unknown): { type: string; message: string; stack: string } {
  const error = reason instanceof Error ? reason : new Error(String(reason));
  const { type, message, stack } = stdSerializers.err(error);
  return { type, message, stack };
}
