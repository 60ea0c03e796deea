import { type CommandContext, FORMATS, type PluginDependencies } from './command.ts';
import { COMMANDS } from './commands.ts';
import { GLOBAL_FLAGS } from './help.ts';

/**
 * Completion of the shell: kubectl runs `kubectl_complete-skerry` with the words so far, the last one unfinished, and
 * expects a candidate in each line and a directive in the last one, as programs with cobra print them.
 */

/** Candidates only; no names of files. */
const NO_FILES = 4;
const FILES = 0;

type MakeContext = (words: readonly string[], flags: CommandContext['flags']) => CommandContext;

export async function complete(
  args: readonly string[],
  makeContext: MakeContext,
  { out }: PluginDependencies,
): Promise<number> {
  const [name, ...rest] = args;
  const unfinished = args.at(-1) ?? '';
  const { candidates, files } = await candidatesOf(name, rest, unfinished, makeContext);
  const matching = candidates.filter((candidate) => candidate.startsWith(unfinished));
  out(`${[...matching, `:${files ? FILES : NO_FILES}`].join('\n')}\n`);
  return 0;
}

interface Candidates {
  candidates: readonly string[];
  files?: boolean;
}

async function candidatesOf(
  name: string | undefined,
  rest: readonly string[],
  unfinished: string,
  makeContext: MakeContext,
): Promise<Candidates> {
  if (rest.length === 0) return { candidates: [...COMMANDS.map((command) => command.name), 'help'] };
  const command = COMMANDS.find((one) => one.name === name);
  if (!command) return { candidates: name === 'help' ? COMMANDS.map((one) => one.name) : [] };
  const flags = { ...GLOBAL_FLAGS, ...command.flags };
  const before = rest.at(-2) ?? '';
  if (before === '-o' || before === '--output') return { candidates: FORMATS.slice(1) };
  if (['-f', '--filename', '--ca', '--kubeconfig'].includes(before)) return { candidates: [], files: true };
  if (unfinished.startsWith('-')) return { candidates: Object.keys(flags).map((flag) => `--${flag}`) };
  const words = rest.slice(0, -1).filter((word, index) => !word.startsWith('-') && !takesValue(flags, rest[index - 1]));
  if (!command.complete || words.length >= command.words.max) return { candidates: [] };
  const context = makeContext(words, {});
  await using _ = context.cluster;
  try {
    return { candidates: await command.complete(context, words) };
  } catch {
    return { candidates: [] };
  }
}

/** Whether the word before is a flag whose value follows it. */
function takesValue(flags: typeof GLOBAL_FLAGS, before = ''): boolean {
  const flag = Object.entries(flags).find(([name, { short }]) => before === `--${name}` || before === `-${short}`);
  return flag?.[1].type === 'string';
}
