/** What both command lines decide and say in the same way about programs and logs of containers. */

interface Asked {
  stdin: boolean;
  tty: boolean;
  /** no command was named */
  isShell: boolean;
  /** whether the standard input is a terminal; asked only where it is of use */
  hasTerminal(): boolean;
}

/** What a program is given of the streams of a command line: a shell all of them, unless flags say otherwise. */
export function programStreams({ stdin, tty, isShell, hasTerminal }: Asked): {
  takesInput: boolean;
  isTerminal: boolean;
  /** what the user should know */
  note?: string;
} {
  const isAsked = stdin || tty;
  const wantsTerminal = isAsked ? tty : isShell;
  const takesInput = isAsked ? stdin : isShell;
  const isTerminal = wantsTerminal && (!takesInput || hasTerminal());
  return {
    ...{ takesInput, isTerminal },
    ...(wantsTerminal && !isTerminal && { note: 'the standard input is no terminal, so the program gets none' }),
  };
}

/** The exit code of a command line for the one of a program. */
export const passedOn = (exitCode: number): number => (exitCode < 0 ? 1 : exitCode % 256);
