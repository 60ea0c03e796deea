/** Command lines of programs with several commands, which share some flags. */

export interface Flag {
  about: string;
  /** one letter */
  short?: string;
  /** further long names, which the help leaves out */
  spellings?: readonly string[];
  /** the name of its value in the help, `FILE` for the name of a file; absent: the flag takes none */
  value?: string;
  /** collects the values when the flag is given several times; absent: the last one counts */
  isList?: true;
  /** its possible values; absent: any */
  values?: readonly string[];
}

export type Flags = Readonly<Record<string, Flag>>;

/** The given flags by their long names. */
export type FlagValues = Readonly<Record<string, string | true | readonly string[] | undefined>>;

export interface CommandForm {
  /** one word, or several: `ms ls` */
  name: string;
  /** the words that follow the name, for the help */
  usage?: string;
  /** the number of words that follow the name; absent: none */
  words?: { min?: number; max: number };
  /** one line for the list of commands */
  about: string;
  details?: readonly string[];
  /** without the name of the program */
  examples?: readonly string[];
  flags?: Flags;
  /** what a user may have meant by a flag that the command does not have */
  hint?: string;
}

export interface CommandLine<C extends CommandForm = CommandForm> {
  /** as it is typed */
  name: string;
  /** the first line of the help */
  about: string;
  /** paragraphs of the help, below the list of commands */
  notes: readonly string[];
  /** in the order of the help; `help` is added */
  commands: readonly C[];
  /** flags of every command; `help` among them */
  flags: Flags;
  /** a word before a command that is accepted and means nothing */
  silentWord?: string;
  /** refusal of a flag as it was written; absent: in the words of this library */
  unknownFlag?(written: string): string;
}

/** A command line that no command takes. */
export class LineError extends Error {
  override name = 'LineError';
  /** the command whose help says more; absent: that of the program */
  readonly command: string | undefined;
  /** when the command is unknown: those of its group */
  readonly choices: readonly string[] | undefined;

  constructor(message: string, { command, choices }: { command?: string; choices?: readonly string[] } = {}) {
    super(message);
    this.command = command;
    this.choices = choices;
  }
}
