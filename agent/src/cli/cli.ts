import { DEFAULT_CONFIG_FILE } from '../config.ts';
import { exists } from '../disk.ts';
import { errorText } from '../log.ts';
import { AGENT_VERSION } from '../names.ts';
import { CliError, EXIT_MEANINGS, exitCode, LocalClient } from './client.ts';
import { COMMANDS, type Command } from './commands.ts';
import { FORMATS, type Format, structured } from './output.ts';

export interface CliPorts {
  out(text: string): void;
  err(text: string): void;
  /** asks the person at the terminal a question to be answered with yes or no; absent where there is none */
  ask?(question: string): Promise<boolean>;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
}

const GLOBAL_FLAGS: Readonly<Record<string, string>> = {
  'config=': `file of settings (default $SKERRY_AGENT_CONFIG or ${DEFAULT_CONFIG_FILE})`,
  'output=': 'human (default), json or yaml; short -o',
  help: 'say what a command does; short -h',
};
const SHORT: Readonly<Record<string, string>> = { o: 'output', h: 'help', f: 'follow', c: 'config', n: 'tail' };

/** Runs one command line; answers the exit code. */
export async function runCli(args: readonly string[], ports: CliPorts): Promise<number> {
  try {
    return await run(args, ports);
  } catch (error) {
    if (ports.signal.aborted) return 130;
    const { code, message, hint } = error instanceof CliError ? error : new CliError('INTERNAL', errorText(error));
    ports.err(`Error[${code}]: ${message}\n${hint ? `${hint}\n` : ''}`);
    return exitCode(code);
  }
}

async function run(args: readonly string[], ports: CliPorts): Promise<number> {
  const { words, flags } = parse(args);
  // The group has no meaning of its own; document 3's command names have it.
  if (words[0] === 'system' && words.length > 1) words.shift();
  const command = findCommand(words);
  if (words[0] === 'version' || (flags.has('version') && words.length === 0)) return version(flags, ports);
  if (words.length === 0 || words[0] === 'help' || (flags.has('help') && !command)) {
    ports.out(help(words[0] === 'help' ? words.slice(1) : words));
    return 0;
  }
  const named = flags.get('config') ?? ports.env.SKERRY_AGENT_CONFIG;
  const configFile = String(named ?? DEFAULT_CONFIG_FILE);
  if (named !== undefined && !exists(configFile))
    throw new CliError(
      'INVALID_ARGUMENT',
      `there is no file ${configFile}`,
      'Name one with --config, or leave the flag out.',
    );
  if (words[0] === 'start') return start(flags, configFile, ports);
  if (!command) throw unknown(words);
  if (flags.has('help')) {
    ports.out(commandHelp(command));
    return 0;
  }
  checkFlags(command, flags);
  const { socket, tokenFile } = command.offline ? NOWHERE : await settings(configFile);
  let code = 0;
  await command.run({
    client: new LocalClient({ socket, tokenFile, configFile, signal: ports.signal }),
    configFile,
    words: words.slice(command.name.split(' ').length),
    flags,
    format: formatOf(flags),
    out: ports.out,
    ask: ports.ask,
    signal: ports.signal,
    exitWith: (given) => {
      code = given;
    },
  });
  return code;
}

/** Commands that work without an agent find their own way to it. */
const NOWHERE = { socket: '', tokenFile: '' };

async function settings(configFile: string): Promise<{ socket: string; tokenFile: string }> {
  const { parseConfig, ConfigError } = await import('../config.ts');
  const { readText } = await import('../disk.ts');
  try {
    return parseConfig(readText(configFile), configFile);
  } catch (error) {
    if (error instanceof ConfigError)
      throw new CliError('INVALID_ARGUMENT', error.message, 'Correct the file and try again.');
    throw error;
  }
}

async function start(flags: ReadonlyMap<string, string | true>, configFile: string, ports: CliPorts): Promise<number> {
  if (flags.has('help')) {
    ports.out(
      'Usage: skerry-agent start [--config FILE]\n\nRuns the agent in the foreground until SIGTERM or Ctrl-C. Containers run on.\n',
    );
    return 0;
  }
  const { runDaemon } = await import('../daemon.ts');
  const { ConfigError } = await import('../config.ts');
  try {
    await runDaemon(configFile, ports.signal);
    return 0;
  } catch (error) {
    if (error instanceof ConfigError)
      throw new CliError('INVALID_ARGUMENT', error.message, 'Correct the file and try again.');
    throw error;
  }
}

function version(flags: ReadonlyMap<string, string | true>, ports: CliPorts): number {
  const format = formatOf(flags);
  ports.out(format === 'human' ? `skerry-agent ${AGENT_VERSION}\n` : structured({ version: AGENT_VERSION }, format));
  return 0;
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

/** Words and flags; `--name value`, `--name=value`, `-o value`, and everything after `--` is a word. */
function parse(args: readonly string[]): { words: string[]; flags: Map<string, string | true> } {
  const words: string[] = [];
  const flags = new Map<string, string | true>();
  const rest = [...args];
  for (let arg = rest.shift(); arg !== undefined; arg = rest.shift()) {
    if (arg === '--') {
      words.push(...rest.splice(0));
      break;
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

function checkFlags({ name, flags = {} }: Command, given: ReadonlyMap<string, string | true>): void {
  for (const flag of given.keys())
    if (![GLOBAL_FLAGS, flags].some((known) => flag in known || `${flag}=` in known))
      throw new CliError('INVALID_ARGUMENT', `"${name}" has no flag --${flag}`, `See: skerry-agent ${name} --help`);
}

function unknown(words: readonly string[]): CliError {
  const group = COMMANDS.filter(({ name }) => name.startsWith(`${words[0]} `)).map(({ name }) => name);
  const hint = group.length > 0 ? `There is: ${group.join(', ')}` : 'See: skerry-agent --help';
  return new CliError('INVALID_ARGUMENT', `there is no command "${words.slice(0, 2).join(' ')}"`, hint);
}

function help(words: readonly string[]): string {
  const command = findCommand(words);
  if (command) return commandHelp(command);
  const prefix = words.length > 0 ? `${words.join(' ')} ` : '';
  const listed = [
    { name: 'start', summary: 'Run the agent in the foreground' },
    { name: 'version', summary: 'Show the version' },
    ...COMMANDS.map(({ name, usage, summary }) => ({ name: [name, usage].filter(Boolean).join(' '), summary })),
  ].filter(({ name }) => name.startsWith(prefix));
  if (listed.length === 0) return help([]);
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
