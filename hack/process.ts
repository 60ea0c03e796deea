import { spawn, spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastWords } from './last-words.ts';
import { FinalError } from './wait.ts';

/** How a process ended. */
interface Exit {
  code: number | null;
  signal: NodeJS.Signals | null;
}

/** A daemon that ended by itself. */
interface DaemonEnd {
  name: string;
  /** in words that follow the name */
  how: string;
  logFile: string;
}

/** What starts a daemon again: called when one ended by itself, resolves with whether it is started again. */
export type Again = (end: DaemonEnd) => Promise<boolean>;

export interface DaemonOptions {
  name: string;
  command: string;
  args: readonly string[];
  /** Folder of `run/<name>.pid` and `logs/<name>.log`. */
  dir: string;
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  /** The signal that the kernel sends the process when this one dies; SIGKILL unless the process has to clean up. */
  deathSignal?: 'SIGKILL' | 'SIGTERM';
  /** Without it, its end is final. */
  again?: Again;
}

/** A long-running child process with its log in a file. */
export interface Daemon {
  readonly name: string;
  /** of its last start */
  readonly pid: number;
  readonly logFile: string;
  /** Resolves when it has ended for good. */
  readonly exited: Promise<Exit>;
  /** How it ended, or undefined while it runs, or is about to be started again. */
  exit(): Exit | undefined;
  /** Throws, with the end of the log, when the process no longer runs. */
  assertRunning(): void;
  signal(signal: NodeJS.Signals): void;
  /** SIGTERM, and after the grace period SIGKILL; returns when the process has ended. */
  stop(graceMs?: number): Promise<void>;
  /** Ends it as a crash would, and for good; returns when it has ended. */
  kill(): Promise<void>;
}

/**
 * Starts a process that does not outlive this one.
 *
 * It gets a session of its own, so that a Ctrl-C in the terminal reaches only this process, which stops everything in
 * order. When this process dies without doing so, the kernel ends it (setpriv, Linux); without setpriv, the next start
 * ends it by its pid file.
 */
export async function startDaemon(options: DaemonOptions): Promise<Daemon> {
  const { name, dir, cwd, env } = options;
  const logFile = join(dir, 'logs', `${name}.log`);
  mkdirSync(join(dir, 'logs'), { recursive: true });
  await stopLeftover(pidFileOf(dir, name));

  const [command, args] = withDeathSignal(options.command, options.args, options.deathSignal ?? 'SIGKILL');
  const run = async (): Promise<{ pid: number; ended: Promise<Exit> }> => {
    const log = openSync(logFile, 'a');
    const child = spawn(command, args, { cwd, env: env ?? process.env, stdio: ['ignore', log, log], detached: true });
    closeSync(log);
    let removePidFile = () => {};
    const ended = new Promise<Exit>((resolve) => {
      const end = (value: Exit) => {
        removePidFile();
        resolve(value);
      };
      child.once('exit', (code, signal) => end({ code, signal }));
      child.once('error', () => end({ code: 127, signal: null }));
    });
    await new Promise<void>((resolve, reject) => {
      child.once('spawn', resolve);
      child.once('error', (error) => reject(new Error(`start ${name}: ${error.message}`, { cause: error })));
    });
    removePidFile = writePidFile(dir, name, child.pid as number);
    return { pid: child.pid as number, ended };
  };

  let exit: Exit | undefined;
  let isStopping = false;
  let now = await run();
  const follow = async (): Promise<Exit> => {
    for (;;) {
      const end = await now.ended;
      if (isStopping || !(await options.again?.({ name, how: howItEnded(end), logFile })) || isStopping) return end;
      try {
        now = await run();
      } catch {
        return { code: 127, signal: null };
      }
      // It was stopped while it was started.
      if (isStopping) sendSignal(now.pid, 'SIGKILL');
    }
  };
  const exited = follow().then((end) => {
    exit = end;
    return end;
  });

  const signal = (what: NodeJS.Signals) => {
    if (!exit) sendSignal(now.pid, what);
  };
  return {
    name,
    get pid() {
      return now.pid;
    },
    logFile,
    exited,
    exit: () => exit,
    assertRunning() {
      if (exit) throw new FinalError(`${name} ${howItEnded(exit)}. The end of ${logFile}:\n${lastWords(logFile)}`);
    },
    signal,
    async stop(graceMs = 10_000) {
      isStopping = true;
      signal('SIGTERM');
      const timer = setTimeout(() => signal('SIGKILL'), graceMs);
      await exited;
      clearTimeout(timer);
    },
    async kill() {
      isStopping = true;
      signal('SIGKILL');
      await exited;
    },
  };
}

/** How a process ended, in words that follow its name. */
function howItEnded({ code, signal }: Exit): string {
  return signal ? `was ended by ${signal}` : `ended with code ${code}`;
}

/** Ends the process that a pid file in `dir` names, and waits for it; returns whether there was one. */
export function stopRecorded(dir: string, name: string, graceMs?: number): Promise<boolean> {
  return stopLeftover(pidFileOf(dir, name), graceMs);
}

/** Ends every process of an earlier run whose pid file is still in `dir`; returns their names. */
export async function stopLeftovers(dir: string): Promise<string[]> {
  let files: string[];
  try {
    files = readdirSync(join(dir, 'run')).filter((file) => file.endsWith('.pid'));
  } catch {
    return [];
  }
  const stopped = await Promise.all(
    files.map(async (file) =>
      (await stopLeftover(join(dir, 'run', file))) ? file.slice(0, -'.pid'.length) : undefined,
    ),
  );
  return stopped.filter((name) => name !== undefined);
}

/** Records a process, so that a later run can end it; returns a function that removes the record. */
export function writePidFile(dir: string, name: string, pid: number): () => void {
  const file = pidFileOf(dir, name);
  mkdirSync(join(dir, 'run'), { recursive: true });
  writeFileSync(file, JSON.stringify({ pid, startTime: processStartTime(pid) }));
  return () => rmSync(file, { force: true });
}

/**
 * When a process was started: together they identify one process, since pids are used again. Undefined when there is no
 * such process.
 */
export function processStartTime(pid: number): string | undefined {
  if (process.platform !== 'linux') {
    return spawnSync('ps', ['-o', 'lstart=', '-p', `${pid}`], { encoding: 'utf8' }).stdout?.trim() || undefined;
  }
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' ? undefined : fields[19];
  } catch {
    return undefined;
  }
}

function pidFileOf(dir: string, name: string): string {
  return join(dir, 'run', `${name}.pid`);
}

/** Id of the process that a pid file in `dir` names, while it runs. */
export function recordedProcess(dir: string, name: string): number | undefined {
  return recordedRuns(dir, name) ? readRecord(pidFileOf(dir, name))?.pid : undefined;
}

/** Whether the process that a pid file in `dir` names still runs. */
export function recordedRuns(dir: string, name: string): boolean {
  const record = readRecord(pidFileOf(dir, name));
  return record !== undefined && isRunning(record);
}

async function stopLeftover(pidFile: string, graceMs = 10_000): Promise<boolean> {
  const record = readRecord(pidFile);
  if (!record) return false;
  const found = isRunning(record);
  if (found) sendSignal(record.pid, 'SIGTERM');
  for (let waited = 0; isRunning(record); waited += 50) {
    if (waited === graceMs) sendSignal(record.pid, 'SIGKILL');
    await sleep(50);
  }
  rmSync(pidFile, { force: true });
  return found;
}

interface PidRecord {
  pid: number;
  startTime?: string;
}

function readRecord(pidFile: string): PidRecord | undefined {
  try {
    return JSON.parse(readFileSync(pidFile, 'utf8'));
  } catch {
    return undefined;
  }
}

function isRunning({ pid, startTime }: PidRecord): boolean {
  return startTime !== undefined && processStartTime(pid) === startTime;
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

function withDeathSignal(command: string, args: readonly string[], signal: string): [string, string[]] {
  const works = process.platform === 'linux' && spawnSync('setpriv', ['--pdeathsig', 'KILL', 'true']).status === 0;
  if (!works) return [command, [...args]];
  return ['setpriv', ['--pdeathsig', signal.replace('SIG', ''), '--', command, ...args]];
}
