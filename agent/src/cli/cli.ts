import { safeWriters } from '../../../src/terminal/safe.ts';
import { ConfigError, DEFAULT_CONFIG_FILE, parseConfig } from '../domain/config.ts';
import { AS_ROOT, CliError, EXIT_MEANINGS, exitCode, LocalClient } from '../local-api/client.ts';
import { readText } from '../system/disk.ts';
import { errorText } from '../system/log.ts';
import { isService } from '../system/service-manager.ts';
import { type Command, type CommandContext, FORMATS, type Format, type StandardStreams } from './command.ts';
import { COMMANDS } from './commands.ts';

export interface CliDependencies {
  out(text: string): void;
  err(text: string): void;
  streams: StandardStreams;
  /** asks a yes-or-no question at the terminal; absent without a terminal */
  ask?(question: string): Promise<boolean>;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** whether a unit of systemd starts the agent with this file of settings; absent: as the machine shows */
  isService?(configFile: string): boolean;
  /** Runs the agent until the signal fires. */
  runAgent(configFile: string, signal: AbortSignal): Promise<void>;
}

export const GLOBAL_FLAGS: Readonly<Record<string, string>> = {
  'config=': `file of settings (default $SKERRY_AGENT_CONFIG or ${DEFAULT_CONFIG_FILE})`,
  'output=': 'human (default), json or yaml; short -o',
  help: 'say what a command does; short -h',
};
const SHORT: Readonly<Record<string, string>> = {
  ...{ o: 'output', h: 'help', f: 'follow', c: 'config', n: 'tail' },
  ...{ i: 'stdin', t: 'tty', p: 'previous' },
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
  if (error instanceof ConfigError)
    return new CliError('INVALID_ARGUMENT', error.message, 'Correct the file and try again.');
  const { code, path, syscall } = (error ?? {}) as NodeJS.ErrnoException;
  if ((code === 'EACCES' || code === 'EPERM') && path)
    return new CliError('FORBIDDEN', `${path}: not permitted (${syscall})`, AS_ROOT);
  return new CliError('INTERNAL', errorText(error));
}

async function run(args: readonly string[], deps: CliDependencies & Pick<CommandContext, 'raw'>): Promise<number> {
  const { words, flags } = parse(args);
  // The group `system` is optional; the documented command names have it
  // (docs/spec/agent-local-api.md#command-line).
  if (words[0] === 'system' && words.length > 1) words.shift();
  if (words.length === 0 && flags.delete('version')) words.push('version');
  const command = words[0] === 'help' ? undefined : findCommand(words);
  if (words.length === 0 || words[0] === 'help' || (flags.has('help') && !command)) {
    checkFlags({ name: 'help' }, flags);
    const asked = words[0] === 'help' ? words.slice(1) : words;
    const page = help(asked);
    if (page === undefined) throw unknown(asked);
    deps.out(page);
    return 0;
  }
  if (!command) throw unknown(words);
  checkFlags(command, flags);
  if (flags.has('help')) {
    deps.out(commandHelp(command));
    return 0;
  }
  const own = words.slice(command.name.split(' ').length);
  checkWords(command, own);
  const configFile = configFileOf(flags, deps);
  const { socket, tokenFile } = command.offline ? NOWHERE : settings(configFile);
  const service = (deps.isService ?? isService)(configFile);
  let code = 0;
  await command.run({
    client: new LocalClient({ socket, tokenFile, configFile, isService: service, signal: deps.signal }),
    configFile,
    isService: service,
    words: own,
    flags,
    format: formatOf(flags),
    out: deps.out,
    raw: deps.raw,
    err: deps.err,
    streams: deps.streams,
    ask: deps.ask,
    env: deps.env,
    signal: deps.signal,
    runAgent: deps.runAgent,
    exitWith: (given) => {
      code = given;
    },
  });
  return code;
}

function configFileOf(flags: ReadonlyMap<string, string | true>, { env }: CliDependencies): string {
  const named = flags.get('config') ?? env.SKERRY_AGENT_CONFIG;
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

function settings(configFile: string): { socket: string; tokenFile: string } {
  return parseConfig(readText(configFile), configFile);
}

function formatOf(flags: ReadonlyMap<string, string | true>): Format {
  const asked = flags.get('output') ?? 'human';
  const format = FORMATS.find((each) => each === asked);
  if (!format)
    throw new CliError(
      'INVALID_ARGUMENT',
      `there is no output format "${String(asked)}"`,
      `One of: ${FORMATS.join(', ')}`,
    );
  return format;
}

/** Splits arguments into words and flags: `--name value`, `--name=value`, `-o value`, `-it`; after `--` all are words. */
function parse(args: readonly string[]): { words: string[]; flags: Map<string, string | true> } {
  const words: string[] = [];
  const flags = new Map<string, string | true>();
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--') {
      words.push(...rest.splice(0));
      break;
    }
    const group = /^-([A-Za-z]{2,})$/.exec(arg)?.[1];
    if (group && [...group].every((letter) => SHORT[letter] && !takesValue(SHORT[letter]))) {
      rest.unshift(...Array.from(group, (letter) => `-${letter}`));
      continue;
    }
    const [, long, short, inline] = /^(?:--([A-Za-z][\w-]*)|-([A-Za-z]))(?:=(.*))?$/s.exec(arg) ?? [];
    const name = long ?? (short && (SHORT[short] ?? short));
    if (!name) words.push(arg);
    else if (inline !== undefined) flags.set(name, inline);
    else if (takesValue(name)) {
      const value = rest.shift();
      if (value === undefined) throw new CliError('INVALID_ARGUMENT', `--${name} needs a value`);
      flags.set(name, value);
    } else flags.set(name, true);
  }
  return { words, flags };
}

function takesValue(name: string): boolean {
  return [GLOBAL_FLAGS, ...COMMANDS.map(({ flags = {} }) => flags)].some((flags) => `${name}=` in flags);
}

function findCommand(words: readonly string[]): Command | undefined {
  return COMMANDS.find(({ name }) => name.split(' ').every((word, index) => words[index] === word));
}

function checkFlags(
  { name, flags = {} }: Pick<Command, 'name' | 'flags'>,
  given: ReadonlyMap<string, string | true>,
): void {
  const known = { ...GLOBAL_FLAGS, ...flags };
  const see = `See: skerry-agent ${name === 'help' ? '' : `${name} `}--help`;
  for (const [flag, value] of given) {
    const written = flag.length === 1 ? `-${flag}` : `--${flag}`;
    if (!(flag in known) && !(`${flag}=` in known))
      throw new CliError('INVALID_ARGUMENT', `"${name}" has no flag ${written}`, see);
    if (flag in known && value !== true) throw new CliError('INVALID_ARGUMENT', `${written} takes no value`, see);
  }
}

function checkWords({ name, usage = '' }: Command, given: readonly string[]): void {
  const most = usage.endsWith('...]') ? Number.POSITIVE_INFINITY : (usage.match(/<[^<>]*>|\[[^[\]]*\]/g)?.length ?? 0);
  if (given.length <= most) return;
  const takes = most === 0 ? 'takes no words' : `takes ${usage} alone`;
  throw new CliError(
    'INVALID_ARGUMENT',
    `"${name}" ${takes}; too much: ${given.slice(most).join(' ')}`,
    `See: skerry-agent ${name} --help`,
  );
}

function unknown(words: readonly string[]): CliError {
  const group = COMMANDS.filter(({ name }) => name.startsWith(`${words[0]} `)).map(({ name }) => name);
  const hint = group.length > 0 ? `There is: ${group.join(', ')}` : 'See: skerry-agent --help';
  return new CliError('INVALID_ARGUMENT', `there is no command "${words.slice(0, 2).join(' ')}"`, hint);
}

/** The help of a command, of a group of commands, or of all; undefined for an unknown command. */
function help(words: readonly string[]): string | undefined {
  const command = findCommand(words);
  if (command) return commandHelp(command);
  const prefix = words.length > 0 ? `${words.join(' ')} ` : '';
  const listed = COMMANDS.map(({ name, usage, summary }) => ({
    name: [name, usage].filter(Boolean).join(' '),
    summary,
  })).filter(({ name }) => name.startsWith(prefix));
  if (listed.length === 0) return undefined;
  const width = Math.max(...listed.map(({ name }) => name.length));
  return [
    'skerry-agent runs containers on this machine, as a controller wants them.',
    '',
    'Usage: skerry-agent <command> [flags]',
    '',
    ...listed.map(({ name, summary }) => `  ${name.padEnd(width)}   ${summary}`),
    '',
    `Exit codes: ${Object.entries(EXIT_MEANINGS)
      .map(([code, text]) => `${code} ${text}`)
      .join('; ')}.`,
    '',
    'A <microservice> is a uuid, application.name, a name, or the beginning of a container id.',
    '',
    flagHelp(GLOBAL_FLAGS),
  ].join('\n');
}

function commandHelp({ name, usage, summary, flags = {}, example }: Command): string {
  return [
    `${summary}.`,
    '',
    `Usage: skerry-agent ${[name, usage].filter(Boolean).join(' ')} [flags]`,
    '',
    ...(example ? [`Example: ${example}`, ''] : []),
    flagHelp({ ...flags, ...GLOBAL_FLAGS }),
  ].join('\n');
}

function flagHelp(flags: Readonly<Record<string, string>>): string {
  const shown = Object.entries(flags).map(([flag, text]) => [`--${flag.replace(/=$/, ' <value>')}`, text] as const);
  const width = Math.max(...shown.map(([flag]) => flag.length));
  return `Flags:\n${shown.map(([flag, text]) => `  ${flag.padEnd(width)}   ${text}\n`).join('')}`;
}
