import { parseArgs } from 'node:util';
import { type CommandContext, FORMATS, type PluginDependencies } from './command.ts';
import { plainFlags, splitLine, takesValue } from './command-line.ts';
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
  line: readonly string[],
  makeContext: MakeContext,
  { out }: PluginDependencies,
): Promise<number> {
  const unfinished = line.at(-1) ?? '';
  const { candidates, files } = await candidatesOf(splitLine(line.slice(0, -1), GLOBAL_FLAGS), unfinished, makeContext);
  const matching = candidates.filter((candidate) => candidate.startsWith(unfinished));
  out(`${[...matching, `:${files ? FILES : NO_FILES}`].join('\n')}\n`);
  return 0;
}

interface Candidates {
  candidates: readonly string[];
  files?: boolean;
}

/** The parts of the line are those before the unfinished word. */
async function candidatesOf(
  { before, name, after }: ReturnType<typeof splitLine>,
  unfinished: string,
  makeContext: MakeContext,
): Promise<Candidates> {
  const line = [...before, ...after];
  const command = COMMANDS.find((one) => one.name === name);
  const flags = { ...GLOBAL_FLAGS, ...command?.flags };
  const last = line.at(-1) ?? '';
  if (takesValue(flags, last)) return valuesOf(last);
  if (name === undefined || name === 'help') return { candidates: COMMANDS.map((one) => one.name).concat('help') };
  if (!command) return { candidates: [] };
  if (unfinished.startsWith('-')) return { candidates: Object.keys(flags).map((flag) => `--${flag}`) };
  const options = Object.fromEntries(
    Object.entries(flags).map(([flag, { type, short }]) => [flag, short ? { type, short } : { type }]),
  );
  const { values, positionals: words } = parseArgs({ args: plainFlags(line, flags), options, strict: false });
  if (!command.complete || words.length >= command.words.max) return { candidates: [] };
  const { namespace, context: chosen, kubeconfig } = values as CommandContext['flags'];
  try {
    const context = makeContext(words, { namespace, context: chosen, kubeconfig });
    await using _ = context.cluster;
    return { candidates: await command.complete(context, words) };
  } catch {
    return { candidates: [] };
  }
}

/** Candidates for the value of a flag. */
function valuesOf(flag: string): Candidates {
  if (flag === '-o' || flag === '--output') return { candidates: FORMATS.slice(1) };
  return { candidates: [], files: ['-f', '--filename', '--ca', '--kubeconfig'].includes(flag) };
}
