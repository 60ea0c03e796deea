import { type CommandForm, type CommandLine, type Flag, type Flags, type FlagValues, LineError } from './command.ts';
import { commandPage, overview } from './help.ts';

/** What a command line asks for: a page of help, or a command with its words and flags. */
export type Line<C> = { page: string } | { command: C; words: string[]; flags: FlagValues };

const HELP: CommandForm = {
  name: 'help',
  usage: '[command]',
  words: { max: Number.POSITIVE_INFINITY },
  about: 'Say what a command does',
};

/**
 * Reads `--name value`, `--name=value`, `-n value`, `-nvalue`, `-n=value`, `-it` and `--switch=true`, before and after the words; after
 * `--` all are words. Throws LineError.
 */
export function readLine<C extends CommandForm>(args: readonly string[], program: CommandLine<C>): Line<C> {
  const found = findCommand(args, program);
  if (found.stray !== undefined) throw new LineError(`there is no command: the command goes before "${found.stray}"`);
  if (!found.command) {
    const { help } = parseArguments(found.args, program.flags, { isLenient: true }).flags;
    if (found.words.length > 0 && !help) throw unknownCommand(found.words, program);
    return { page: pageOf(found.words, program) };
  }
  const { command, args: own } = found;
  const { words, flags } = parseOwn(own, command, program);
  if (command === HELP) return { page: pageOf(words, program) };
  if (flags.help) return { page: commandPage(command, program) };
  checkWords(words, command, program);
  // HELP was answered before.
  return { command: command as C, words, flags };
}

interface FoundCommand<C> {
  /** absent when the line names none; its words are in `words` then */
  command?: C | CommandForm;
  words: readonly string[];
  /** the line without the name */
  args: string[];
  /** an unknown flag before the name, where it cannot be known whether it takes a value */
  stray?: string;
}

/** Splits a line into the name of its command and the rest. Flags may stand before the name where all commands read them alike. */
export function findCommand<C extends CommandForm>(line: readonly string[], program: CommandLine<C>): FoundCommand<C> {
  const commands = [...program.commands, HELP];
  const known = [program.flags, ...program.commands.map(({ flags = {} }) => flags)];
  const words: string[] = [];
  const args: string[] = [];
  for (let at = 0; at < line.length; at++) {
    const arg = line[at] ?? '';
    if (arg === '--') break;
    if (isFlag(arg)) {
      const command = commands.find(({ name }) => arg === `--${name}` && !(name in program.flags));
      if (command) return { command, words, args: [...args, ...line.slice(at + 1)] };
      const last = partsOf(arg, (written) => takesValue(known, written) === true);
      if (last.some(({ written }) => takesValue(known, written) === undefined)) return { words, args, stray: arg };
      args.push(arg);
      const { written, value } = last.at(-1) as Part;
      if (takesValue(known, written) && value === undefined && at + 1 < line.length) args.push(line[++at] ?? '');
      continue;
    }
    if (words.length === 0 && arg === program.silentWord) continue;
    words.push(arg);
    const command = commands.find(({ name }) => name === words.join(' '));
    // A command may be the beginning of another: `config` and `config switch`.
    const further = `${words.join(' ')} ${line[at + 1] ?? ''}`;
    if (command && commands.some(({ name }) => `${name} `.startsWith(`${further} `))) continue;
    if (command) return { command, words, args: [...args, ...line.slice(at + 1)] };
    if (!commands.some(({ name }) => name.startsWith(`${words.join(' ')} `))) break;
  }
  return { words, args };
}

/** Words and flags of what follows the name of a command. Throws LineError, unless it is lenient: then it leaves out what is wrong. */
export function parseArguments(
  args: readonly string[],
  known: Flags,
  { isLenient = false, unknownFlag = (written: string) => `there is no flag ${written}` } = {},
): { words: string[]; flags: FlagValues } {
  const words: string[] = [];
  const flags: Record<string, string | true | string[]> = {};
  const refuse = (message: string) => {
    if (!isLenient) throw new LineError(message);
  };
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? '';
    if (arg === '--') {
      words.push(...args.slice(at + 1));
      break;
    }
    if (!isFlag(arg)) {
      words.push(arg);
      continue;
    }
    for (const { written, value: inline } of partsOf(arg, (each) => takesValue([known], each) === true)) {
      const [name, flag] = flagOf(known, written) ?? [];
      if (name === undefined || flag === undefined) refuse(unknownFlag(written));
      else if (flag.value === undefined) {
        if (inline === undefined || inline === 'true') flags[name] = true;
        else if (inline === 'false') delete flags[name];
        else refuse(`${written} takes no value`);
      } else {
        const value = inline ?? (isValue(args[at + 1]) ? args[++at] : undefined);
        if (value === undefined) refuse(`${written} needs a value`);
        else if (flag.isList) flags[name] = [...((flags[name] as string[] | undefined) ?? []), value];
        else flags[name] = value;
      }
    }
  }
  return { words, flags };
}

function parseOwn(args: readonly string[], { name, flags = {}, hint }: CommandForm, program: CommandLine) {
  try {
    return parseArguments(
      args,
      { ...program.flags, ...flags },
      {
        unknownFlag: (written) =>
          `${program.unknownFlag?.(written) ?? `"${name}" has no flag ${written}`}${hint ? `; ${hint}` : ''}`,
      },
    );
  } catch (error) {
    throw error instanceof LineError ? new LineError(error.message, { command: name }) : error;
  }
}

function checkWords(given: readonly string[], { name, usage = '', words }: CommandForm, program: CommandLine): void {
  const { min = 0, max } = words ?? { max: 0 };
  if (given.length < min) throw new LineError(`usage: ${program.name} ${name} ${usage}`, { command: name });
  if (given.length <= max) return;
  const takes = max === 0 ? 'takes no words' : `takes ${usage} alone`;
  throw new LineError(`"${name}" ${takes}; too much: ${given.slice(max).join(' ')}`, { command: name });
}

/** The help of a command, of a group of commands, or of all. Throws LineError for others. */
function pageOf(words: readonly string[], program: CommandLine): string {
  const name = words.join(' ');
  const command = program.commands.find((each) => each.name === name);
  if (command) return commandPage(command, program);
  const commands = program.commands.filter((each) => words.length === 0 || each.name.startsWith(`${name} `));
  if (commands.length === 0) throw unknownCommand(words, program);
  return overview({ ...program, commands });
}

function unknownCommand(words: readonly string[], { commands }: CommandLine): LineError {
  const choices = commands.map(({ name }) => name).filter((name) => name.startsWith(`${words[0]} `));
  const isGroup = words.length === 1 && choices.length > 0;
  const message = isGroup
    ? `"${words[0]}" is not a whole command`
    : `there is no command "${words.slice(0, 2).join(' ')}"`;
  return new LineError(message, { choices });
}

/** A flag in an argument: `-it` has two, and `-n1` has one with a value. */
interface Part {
  /** with its dashes */
  written: string;
  value?: string;
}

function partsOf(arg: string, takes: (written: string) => boolean): Part[] {
  const equals = arg.indexOf('=');
  const inline = equals < 0 ? {} : { value: arg.slice(equals + 1) };
  const name = equals < 0 ? arg : arg.slice(0, equals);
  if (arg.startsWith('--')) return [{ written: name, ...inline }];
  const parts: Part[] = [];
  for (const [at, letter] of [...name.slice(1)].entries()) {
    const written = `-${letter}`;
    const rest = [...arg.slice(1)].slice(at + 1).join('');
    const isLast = rest === '' || rest.startsWith('=');
    if (takes(written) && !isLast) return [...parts, { written, value: rest }];
    parts.push({ written, ...(isLast && inline) });
  }
  return parts;
}

/** Whether a flag that was written so takes a value in all of the tables that have it; undefined when none has it, or they differ. */
function takesValue(tables: readonly Flags[], written: string): boolean | undefined {
  const [first, ...others] = tables.flatMap((flags) => flagOf(flags, written)?.[1] ?? []);
  const takes = (flag: Flag) => flag.value !== undefined;
  return first && others.every((flag) => takes(flag) === takes(first)) ? takes(first) : undefined;
}

/** The flag that was written as `--name` or `-n`. */
export const flagOf = (flags: Flags, written: string): [name: string, flag: Flag] | undefined =>
  Object.entries(flags).find(
    ([name, { short, spellings = [] }]) =>
      written === `--${name}` || written === `-${short}` || spellings.some((each) => written === `--${each}`),
  );

/** A dash alone is a word: it names the standard input. A negative number is one, too. */
const isFlag = (arg: string) => arg.startsWith('-') && arg !== '-' && !/^-\d+(?:\.\d+)?$/.test(arg);

/** Flags are no values. */
const isValue = (arg: string | undefined) => arg !== undefined && !isFlag(arg);
