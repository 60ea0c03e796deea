import { parseArgs } from 'node:util';
import { isForbidden, isNotFound } from '../../src/kube/api-error.ts';
import { safeWriters } from '../../src/terminal/safe.ts';
import { type Command, type CommandContext, FORMATS, type Format, type PluginDependencies } from './command.ts';
import { plainFlags, splitLine } from './command-line.ts';
import { COMMANDS } from './commands.ts';
import { complete } from './completion.ts';
import { CommandError, UsageError } from './errors.ts';
import { commandHelp, GLOBAL_FLAGS, overview } from './help.ts';

/** Runs one command line, as `kubectl skerry` passes it; resolves with the exit code. */
export async function runPlugin(args: readonly string[], given: PluginDependencies): Promise<number> {
  const deps = safeWriters(given);
  try {
    return await run(args, deps);
  } catch (error) {
    if (deps.signal.aborted) return 130;
    deps.err(`error: ${messageOf(error)}\n`);
    return error instanceof UsageError ? 2 : 1;
  }
}

type SafeDependencies = PluginDependencies & Pick<CommandContext, 'raw'>;

async function run(line: readonly string[], deps: SafeDependencies): Promise<number> {
  const { before, name, after } = splitLine(line, GLOBAL_FLAGS);
  if (name === undefined || name === 'help' || name === '--help' || name === '-h') {
    const [about] = after;
    const command = about === undefined ? undefined : commandNamed(about);
    deps.out(command ? commandHelp(command) : overview(COMMANDS));
    return 0;
  }
  if (name === '__complete') return complete(after, (words, flags) => contextOf(deps, words, flags), deps);
  const command = commandNamed(name);
  const { words, flags } = parse(command, [...before, ...after]);
  if (flags.help) {
    deps.out(commandHelp(command));
    return 0;
  }
  if (words.length < command.words.min || words.length > command.words.max)
    throw new UsageError(`usage: kubectl skerry ${command.name} ${command.usage}`);
  let code = 0;
  const context = contextOf(deps, words, flags, (given) => {
    code = given;
  });
  await using _ = context.cluster;
  await command.run(context);
  return code;
}

function commandNamed(name: string): Command {
  const command = COMMANDS.find((one) => one.name === name);
  if (command) return command;
  if (name.startsWith('-')) throw new UsageError(`the command goes before "${name}"; see kubectl skerry --help`);
  throw new UsageError(
    `there is no command "${name}"; it must be one of ${COMMANDS.map((one) => one.name).join(', ')}`,
  );
}

/** Words and flags of a command line. */
function parse({ flags: own = {}, name, hint }: Command, args: readonly string[]) {
  const flags = { ...GLOBAL_FLAGS, ...own };
  const options = Object.fromEntries(
    Object.entries(flags).map(([flag, { about: _about, value: _value, ...option }]) => [flag, option]),
  );
  try {
    const { values, positionals } = parseArgs({ args: plainFlags(args, flags), options, allowPositionals: true });
    return { words: positionals, flags: values as CommandContext['flags'] };
  } catch (error) {
    throw new UsageError(
      `${(error as Error).message.replace(/\. To specify.*$/s, '')}; ${hint ? `${hint}; ` : ''}see kubectl skerry ${name} --help`,
    );
  }
}

function contextOf(
  deps: SafeDependencies,
  words: readonly string[],
  flags: CommandContext['flags'],
  exitWith: (code: number) => void = () => {},
): CommandContext {
  const text = (name: string) => (typeof flags[name] === 'string' ? { [name]: flags[name] as string } : {});
  const cluster = deps.connect({ ...text('kubeconfig'), ...text('context'), ...text('namespace') });
  return { ...deps, cluster, words, flags, format: formatOf(flags.output), exitWith };
}

function formatOf(given: unknown): Format {
  if (given === undefined) return 'table';
  if (FORMATS.some((format) => format === given)) return given as Format;
  throw new UsageError(`--output "${given}" must be one of ${FORMATS.slice(1).join(', ')}`);
}

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (error instanceof UsageError || error instanceof CommandError) return error.message;
  if (isForbidden(error))
    return `${error.message}\nThe roles are skerry-admin, skerry-sre, skerry-developer and skerry-viewer.`;
  if (isNotFound(error) && /the server could not find the requested resource/.test(error.message))
    return 'this cluster has no Skerry: its definitions are missing. Install the chart, or choose another --context.';
  return error.message;
}
