/** What both command lines decide and say in the same way about programs and logs of containers. */

/** The flags of a command that runs a program. */
export const PROGRAM_FLAGS = {
  stdin: { short: 'i', about: 'pass the standard input on' },
  tty: { short: 't', about: 'with a terminal, which has the size of this one' },
} as const;

/**
 * The session of a program: its query, and what the program is given of the streams of a command line. A shell, which no command
 * names, gets all of them, unless flags say otherwise. The standard input is looked at only where it is of use.
 */
export function programSession(
  command: readonly string[],
  flags: Readonly<{ stdin?: unknown; tty?: unknown }>,
  streams: { readonly input: { isTTY?: boolean } },
): {
  query: URLSearchParams;
  takesInput: boolean;
  isTerminal: boolean;
  /** what the user should know */
  note?: string;
} {
  const isShell = command.length === 0;
  const isAsked = flags.stdin === true || flags.tty === true;
  const wantsTerminal = isAsked ? flags.tty === true : isShell;
  const takesInput = isAsked ? flags.stdin === true : isShell;
  const isTerminal = wantsTerminal && (!takesInput || streams.input.isTTY === true);
  const query = new URLSearchParams({ tty: String(isTerminal) });
  for (const one of command) query.append('command', one);
  return {
    ...{ query, takesInput, isTerminal },
    ...(wantsTerminal && !isTerminal && { note: 'the standard input is no terminal, so the program gets none' }),
  };
}

/** The exit code of a command line for the one of a program. */
export const passedOn = (exitCode: number): number => (exitCode < 0 ? 1 : exitCode % 256);
