import { type CommandLine, type Flags, type FlagValues, LineError } from '../../../src/lib/command-line/command.ts';
import { readLine } from '../../../src/lib/command-line/line.ts';
import { safeWriters } from '../../../src/terminal/safe.ts';
import { AgentError } from '../domain/agent-error.ts';
import { ConfigError, DEFAULT_CONFIG_FILE, parseConfig, placesOf, tokenBeside } from '../domain/config.ts';
import { AS_ROOT, CliError, EXIT_MEANINGS, exitCode, LocalClient } from '../local-api/client.ts';
import { readText } from '../machine/disk.ts';
import { errorText } from '../machine/log.ts';
import { isService } from '../machine/service-manager.ts';
import { type Command, type CommandContext, type CommandProcess, FORMATS, type Format } from './commands/command.ts';
import { COMMANDS } from './commands.ts';

export interface CliDependencies extends CommandProcess {
  /** whether a unit of systemd starts the agent with this file of settings; absent: as the machine shows */
  isService?(configFile: string): boolean;
}

export const GLOBAL_FLAGS: Flags = {
  config: {
    ...{ short: 'c', value: '<value>' },
    about: `file of settings (default $SKERRY_AGENT_CONFIG or ${DEFAULT_CONFIG_FILE})`,
  },
  output: { short: 'o', value: '<value>', values: FORMATS, about: 'human (default), json or yaml' },
  quiet: { short: 'q', about: 'print nothing for people when all went well' },
  verbose: { about: 'say on stderr what is asked of the agent' },
  debug: { about: 'the same, and where an error comes from' },
  socket: { value: '<path>', about: "the agent's socket; its token is beside it (default: as the settings say)" },
  timeout: {
    value: '<time>',
    about: 'how long to wait for an answer, or for the end of what was begun: 90, 30s, 10m, 2h',
  },
  'no-color': { about: 'accepted; this program prints no colors' },
  help: { short: 'h', about: 'say what a command does' },
};

const PROGRAM: CommandLine<Command> = {
  name: 'skerry-agent',
  about: 'skerry-agent runs containers on this machine, as a controller wants them.',
  notes: [
    'skerry-agent <command> --help says more.',
    `Exit codes: ${Object.entries(EXIT_MEANINGS)
      .map(([code, text]) => `${code} ${text}`)
      .join('; ')}.`,
    'A <microservice> is a uuid, application.name, a name, or the beginning of a container id.',
  ],
  commands: COMMANDS,
  flags: GLOBAL_FLAGS,
  // The documented command names have it: docs/spec/agent-local-api.md#command-line.
  silentWord: 'system',
};

/** Runs one command line; returns the exit code. */
export async function runCli(args: readonly string[], given: CliDependencies): Promise<number> {
  const deps = safeWriters(given);
  try {
    return await run(args, deps);
  } catch (error) {
    if (deps.signal.aborted) return 130;
    const { code, message, hint } = toCliError(error);
    deps.err(`Error[${code}]: ${message}\n${hint ? `${hint}\n` : ''}`);
    return exitCode(code);
  }
}

function toCliError(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (error instanceof LineError) return new CliError('INVALID_ARGUMENT', error.message, nextStepOf(error));
  if (error instanceof AgentError) return new CliError(error.code, error.message);
  if (error instanceof ConfigError)
    return new CliError('INVALID_ARGUMENT', error.message, 'Correct the file and try again.');
  const { code, path, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if ((code === 'EACCES' || code === 'EPERM') && path)
    return new CliError('FORBIDDEN', `${path}: not permitted (${syscall})`, AS_ROOT);
  return new CliError('INTERNAL', errorText(error));
}

function nextStepOf({ choices = [], command }: LineError): string {
  if (choices.length > 0) return `There is: ${choices.join(', ')}`;
  return `See: skerry-agent ${command && command !== 'help' ? `${command} ` : ''}--help`;
}

async function run(args: readonly string[], deps: CliDependencies & Pick<CommandContext, 'raw'>): Promise<number> {
  const line = readLine(args, PROGRAM);
  if ('page' in line) {
    deps.out(line.page);
    return 0;
  }
  const { command, words, flags } = line;
  const configFile = configFileOf(flags, deps);
  const { socket, tokenFile } = command.offline ? NOWHERE : placesNamed(flags, configFile);
  const patience = patienceOf(flags.timeout);
  const service = (deps.isService ?? isService)(configFile);
  let code = 0;
  const run = command.run({
    ...deps,
    client: new LocalClient({
      ...{ socket, tokenFile, configFile, isService: service, signal: deps.signal },
      ...(patience !== undefined && { patience }),
      ...((flags.verbose || flags.debug) && { asked: (text) => deps.err(`${text}\n`) }),
    }),
    ...{ configFile, isService: service, words, flags, format: formatOf(flags) },
    table: PROGRAM,
    isQuiet: flags.quiet === true,
    budget: (usual) => patience ?? usual,
    exitWith: (given) => {
      code = given;
    },
  });
  await run.catch((error) => {
    // The file of settings may be the reason that no agent runs.
    if (error instanceof CliError && error.code === 'DAEMON_UNAVAILABLE') parseConfig(readText(configFile), configFile);
    if (flags.debug) deps.err(`${error instanceof Error ? error.stack : String(error)}\n`);
    throw error;
  });
  return code;
}

/** Where the agent is: at the socket that was named, or where the settings have it. */
function placesNamed({ socket }: FlagValues, configFile: string): { socket: string; tokenFile: string } {
  if (typeof socket !== 'string') return placesOf(readText(configFile), configFile);
  return { socket, tokenFile: tokenBeside(socket) };
}

const UNITS: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600 };

/** The time that `--timeout` gives, ms. */
function patienceOf(text: FlagValues[string]): number | undefined {
  if (text === undefined) return undefined;
  const [, count, unit = ''] = /^(\d{1,6})([smh]?)$/.exec(String(text)) ?? [];
  const seconds = Number(count) * (UNITS[unit] ?? Number.NaN);
  if (!(seconds > 0 && seconds <= LONGEST_PATIENCE))
    throw new CliError(
      'INVALID_ARGUMENT',
      `--timeout is "${String(text)}"`,
      'Such as 90, 30s, 10m or 2h; at most 24h.',
    );
  return seconds * 1000;
}

const LONGEST_PATIENCE = 24 * 3600;

function configFileOf(flags: FlagValues, { env }: CliDependencies): string {
  const named = flags.config ?? env.SKERRY_AGENT_CONFIG;
  const file = String(named ?? DEFAULT_CONFIG_FILE);
  if (named === undefined) return file;
  try {
    if (readText(file) !== undefined) return file;
  } catch (error) {
    // Other problems, such as a directory, are reported when the file is read as settings.
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') return file;
    throw error;
  }
  throw new CliError('INVALID_ARGUMENT', `there is no file ${file}`, 'Name one with --config, or leave the flag out.');
}

/** Commands that work without an agent read the paths themselves. */
const NOWHERE = { socket: '', tokenFile: '' };

function formatOf(flags: FlagValues): Format {
  const asked = flags.output ?? 'human';
  const format = FORMATS.find((each) => each === asked);
  if (!format)
    throw new CliError(
      'INVALID_ARGUMENT',
      `there is no output format "${String(asked)}"`,
      `One of: ${FORMATS.join(', ')}`,
    );
  return format;
}
