import type { CommandForm, FlagValues } from '../../../../src/lib/command-line/command.ts';
import type { Streams } from '../../../../src/session-client/attach.ts';
import { structured } from '../../../../src/terminal/output.ts';
import { CliError, type LocalClient } from '../../local-api/client.ts';
import type { CommandTable } from './completion.ts';

export const FORMATS = ['human', 'json', 'yaml'] as const;
export type Format = (typeof FORMATS)[number];

/** The standard streams of the process. */
export interface StandardStreams {
  input: NonNullable<Streams['input']>;
  output: Streams['output'];
  errors: Streams['errors'];
}

/** What a command line has of its process. */
export interface CommandProcess {
  out(text: string): void;
  err(text: string): void;
  /** for programs of containers, whose bytes pass as they are */
  streams: StandardStreams;
  /** asks a yes-or-no question at the terminal; absent without a terminal */
  ask?(question: string): Promise<boolean>;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Runs the agent until the signal fires. */
  runAgent(configFile: string, signal: AbortSignal): Promise<void>;
}

/** Dependencies of a command. */
export interface CommandContext extends CommandProcess {
  client: LocalClient;
  configFile: string;
  /** a unit of systemd starts the agent, also when it ends by itself */
  isService: boolean;
  words: string[];
  flags: FlagValues;
  format: Format;
  /** nothing is printed for people when all went well */
  isQuiet: boolean;
  /** of this program */
  table: CommandTable;
  /** ms to wait for what was begun: the usual time, unless the line has another */
  budget(usual: number): number;
  /** passes on what `out` would escape: lines of containers */
  raw(text: string): void;
  /** sets the exit code of a command that succeeded and found a problem */
  exitWith(code: number): void;
}

export interface Command extends CommandForm {
  /** works without an agent, and with settings that cannot be read */
  offline?: true;
  run(context: CommandContext): Promise<void>;
}

/** Prints data in the requested format. */
export function show(context: CommandContext, data: unknown, human: () => string): void {
  const { format, isQuiet, out } = context;
  if (isQuiet && format === 'human') return;
  out(format === 'human' ? human() : structured(data, format));
}

export function required(context: CommandContext, what: string): string {
  const [word] = context.words;
  if (!word) throw new CliError('INVALID_ARGUMENT', `${what} is missing`, 'See --help.');
  return word;
}

/** The number of a registry in the flags; undefined where there is none. */
export function registryIn({ registry }: CommandContext['flags']): number | undefined {
  if (registry === undefined) return undefined;
  if (/^\d{1,9}$/.test(String(registry))) return Number(registry);
  throw new CliError('INVALID_ARGUMENT', `--registry "${String(registry).slice(0, 50)}" is not a number`);
}

/** Asks whether to do what cannot be undone; throws where the answer is no, or where nobody can be asked. */
export async function confirm({ ask }: CommandContext, lines: readonly string[]): Promise<void> {
  if (!ask)
    throw new CliError('INVALID_ARGUMENT', `${lines.join(' ')} There is no terminal to ask on`, 'Confirm with --yes.');
  if (!(await ask(`${lines.join('\n')}\nGo on?`))) throw new CliError('DECLINED', 'nothing was changed');
}

/** ms. Many containers may have to stop, a few at a time; the agent responds earlier when a removal is stuck. */
export const REMOVAL = 3600_000;

/** A microservice as the local API lists it. */
export interface Item {
  uuid: string;
  name: string;
  application: string;
  state: string;
  reason?: string;
  image: string;
  wantedImage?: string;
  containerId: string;
  restartCount?: number;
  percentage?: number;
  startTime?: number;
  errorMessage?: string;
  memoryUsage?: number;
  cpuUsage?: number;
  healthStatus?: string;
  healthMessage?: string;
}
