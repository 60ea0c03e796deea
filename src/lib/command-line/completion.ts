import type { CommandForm, CommandLine, FlagValues } from './command.ts';
import { findCommand, flagOf, parseArguments } from './line.ts';

/** What follows the candidates, as programs with cobra print it. */
const NO_FILES = ':4';
const FILES = ':0';

/** Candidates for the next word of a command. */
type Complete<C> = (command: C, words: readonly string[], flags: FlagValues) => Promise<readonly string[]>;

/**
 * What completes the last word of a line: a candidate in each line, and a directive in the last one, which says whether names of files
 * complete it too.
 */
export async function completionOf<C extends CommandForm>(
  line: readonly string[],
  program: CommandLine<C>,
  complete: Complete<C>,
): Promise<string> {
  const unfinished = line.at(-1) ?? '';
  const candidates = await candidatesFor(line.slice(0, -1), unfinished, program, complete);
  if (candidates === 'files') return `${FILES}\n`;
  return [...candidates.filter((each) => each.startsWith(unfinished)), NO_FILES].join('\n').concat('\n');
}

async function candidatesFor<C extends CommandForm>(
  line: readonly string[],
  unfinished: string,
  program: CommandLine<C>,
  complete: Complete<C>,
): Promise<readonly string[] | 'files'> {
  const found = findCommand(line, program);
  const command = program.commands.find((each) => each === found.command);
  const flags = { ...program.flags, ...command?.flags };
  const [, before] = flagOf(flags, line.at(-1) ?? '') ?? [];
  if (before?.value !== undefined) return before.value === 'FILE' ? 'files' : (before.values ?? []);
  if (!command) {
    const words = found.command ? parseArguments(found.args, flags, { isLenient: true }).words : found.words;
    return nextWords(words, program, found.command === undefined);
  }
  if (unfinished.startsWith('-')) return Object.keys(flags).map((flag) => `--${flag}`);
  const given = parseArguments(found.args, flags, { isLenient: true });
  return given.words.length < (command.words?.max ?? 0) ? complete(command, given.words, given.flags) : [];
}

/** The words that continue these to the name of a command. */
function nextWords(words: readonly string[], { commands }: CommandLine, withHelp: boolean): string[] {
  const start = words.map((word) => `${word} `).join('');
  const names = commands.flatMap(({ name }) => (name.startsWith(start) ? [name.slice(start.length)] : []));
  return [
    ...new Set([...names.map((name) => name.split(' ')[0] ?? ''), ...(withHelp && start === '' ? ['help'] : [])]),
  ];
}
