import { isForbidden, isNotFound, TransportError } from '../../src/kube/api-error.ts';
import { type CommandLine, type Flags, type FlagValues, LineError } from '../../src/lib/command-line/command.ts';
import { completionOf } from '../../src/lib/command-line/completion.ts';
import { readLine } from '../../src/lib/command-line/line.ts';
import { safeWriters } from '../../src/terminal/safe.ts';
import { COMMANDS } from './commands.ts';
import { type Command, type CommandContext, FORMATS, type Format, type PluginDependencies } from './context/command.ts';
import { CommandError, UsageError } from './context/errors.ts';

const FLAGS: Flags = {
  namespace: { short: 'n', value: 'NAME', about: 'namespace of the controller; that of the context, else skerry' },
  context: { value: 'NAME', about: 'context of the kubeconfig' },
  kubeconfig: { value: 'FILE', about: 'kubeconfig; $KUBECONFIG, else ~/.kube/config' },
  output: { short: 'o', value: 'FORMAT', values: FORMATS.slice(1), about: 'wide, json or yaml' },
  help: { short: 'h', about: 'say what a command does' },
};

const PROGRAM: CommandLine<Command> = {
  name: 'kubectl skerry',
  about: 'kubectl skerry: containers on machines outside the cluster.',
  notes: ['kubectl skerry COMMAND --help says more.'],
  commands: COMMANDS,
  flags: FLAGS,
  unknownFlag: (written) => `Unknown option '${written}'`,
};

/** Runs one command line, as `kubectl skerry` passes it; resolves with the exit code. */
export async function runPlugin(args: readonly string[], given: PluginDependencies): Promise<number> {
  const deps = safeWriters(given);
  try {
    return await run(args, deps);
  } catch (error) {
    if (deps.signal.aborted) return 130;
    deps.err(`error: ${messageOf(error)}\n`);
    return error instanceof UsageError || error instanceof LineError ? 2 : 1;
  }
}

type SafeDependencies = PluginDependencies & Pick<CommandContext, 'raw'>;

async function run(args: readonly string[], deps: SafeDependencies): Promise<number> {
  if (args[0] === '__complete') {
    deps.out(await completionOf(args.slice(1), PROGRAM, (...given) => candidatesFor(deps, ...given)));
    return 0;
  }
  const line = readLine(args, PROGRAM);
  if ('page' in line) {
    deps.out(line.page);
    return 0;
  }
  let code = 0;
  const context = contextOf(deps, line.words, line.flags, (given) => {
    code = given;
  });
  await using _ = context.cluster;
  await line.command.run(context);
  return code;
}

/** Candidates for the next word of a command; none where the cluster does not answer. */
async function candidatesFor(
  deps: SafeDependencies,
  command: Command,
  words: readonly string[],
  { namespace, context: chosen, kubeconfig }: FlagValues,
): Promise<readonly string[]> {
  if (!command.complete) return [];
  try {
    const context = contextOf(deps, words, { namespace, context: chosen, kubeconfig });
    await using _ = context.cluster;
    return await command.complete(context, words);
  } catch {
    return [];
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
  if (error instanceof LineError) return `${error.message}; ${nextStepOf(error)}`;
  // The error of a connection has a code of the system; an error of credentials has none.
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
  if (error instanceof TransportError && error.code === 'refused' && code)
    return `the API server of the kubeconfig does not answer: ${error.message}`;
  if (isForbidden(error))
    return `${error.message}\nThe roles are skerry-admin, skerry-sre, skerry-developer and skerry-viewer.`;
  if (isNotFound(error) && /the server could not find the requested resource/.test(error.message))
    return 'this cluster has no Skerry: its definitions are missing. Install the chart, or choose another --context.';
  return error.message;
}

function nextStepOf({ choices, command }: LineError): string {
  if (choices) return `it must be one of ${COMMANDS.map(({ name }) => name).join(', ')}`;
  return `see kubectl skerry ${command ? `${command} ` : ''}--help`;
}
