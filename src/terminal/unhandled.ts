import { output } from './safe.ts';

/**
 * Ends a command at the first failure that no code of it handles, until it is disposed: the message goes to `err`, and the
 * exit code is 1, since what the user asked for may not have been done.
 */
export function endAtUnhandled(err: (text: string) => void): Disposable {
  const end = (error: unknown) => {
    err(`error: ${output(textOf(error))}\nThis is a fault of the program; please report it.\n`);
    process.exit(1);
  };
  process.on('unhandledRejection', end);
  process.on('uncaughtException', end);
  return {
    [Symbol.dispose]() {
      process.off('unhandledRejection', end);
      process.off('uncaughtException', end);
    },
  };
}

/** The stack names the place; the cause often names the connection. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `\ncaused by: ${error.cause.message}` : '';
  return `${error.stack ?? error.message}${cause}`;
}
