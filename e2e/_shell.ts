import { type ChildProcessWithoutNullStreams, execFileSync, spawn } from 'node:child_process';
import { mkdirSync, readFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { inject } from 'vitest';
import { parse, stringify } from 'yaml';
import { findTools } from '../hack/binaries.ts';
import { bundle } from '../hack/build.ts';
import { FinalError } from '../hack/wait.ts';
import { until } from './_stack.ts';

/** A shell with kubectl and the plugin as it ships, whose kubeconfig has the namespace of a test. Lines are typed as people type them. */
export interface Shell extends AsyncDisposable {
  /** in which lines run */
  readonly folder: string;
  readonly env: NodeJS.ProcessEnv;
  start(line: string): Typed;
  /** Starts a line in a pseudo-terminal. */
  startInTerminal(line: string, size: WindowSize): TypedInTerminal;
  /** Runs a line to its end. */
  run(line: string): Promise<{ code: number | null; out: string; err: string }>;
}

/** A line that was typed, and what it has written so far. */
interface Typed {
  readonly out: string;
  readonly err: string;
  /** the exit code */
  readonly ended: Promise<number | null>;
  type(keys: string): void;
  /** Ctrl-C without a terminal. */
  interrupt(): void;
}

interface TypedInTerminal extends Typed {
  resize(size: WindowSize): void;
}

interface WindowSize {
  cols: number;
  rows: number;
}

export async function openShell(namespace: string, variables: NodeJS.ProcessEnv): Promise<Shell> {
  const folder = await mkdtemp(join(tmpdir(), 'skerry-shell-'));
  const bin = join(folder, 'bin');
  const running = new Set<ChildProcessWithoutNullStreams>();
  const [{ path }, { kubectl }] = await Promise.all([bundle('kubectl-skerry', bin), findTools(['kubectl'])]);
  renameSync(path, join(bin, 'kubectl-skerry'));
  if (kubectl !== 'kubectl') symlinkSync(kubectl, join(bin, 'kubectl'));
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, inNamespace(readFileSync(inject('kubeconfig'), 'utf8'), namespace));
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    PATH: [bin, dirname(process.execPath), process.env.PATH].join(delimiter),
    KUBECONFIG: kubeconfig,
    TERM: 'xterm',
    ...variables,
  };
  const home = join(folder, 'home');
  mkdirSync(home);

  function start(line: string): Typed {
    const child = spawn('sh', ['-c', line], { env, cwd: home, detached: true });
    running.add(child);
    let [out, err] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      out += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      err += text;
    });
    // A program that has ended reads no more keys.
    child.stdin.on('error', () => {});
    const ended = new Promise<number | null>((resolve) => {
      child.once('close', (code) => {
        running.delete(child);
        resolve(code);
      });
    });
    return {
      get out() {
        return out;
      },
      get err() {
        return err;
      },
      ended,
      type: (keys) => void child.stdin.write(keys),
      interrupt: () => signal(child, 'SIGINT'),
    };
  }

  return {
    folder: home,
    env,
    start,
    startInTerminal(line, { cols, rows }) {
      const [script, device] = [join(folder, 'line.sh'), join(folder, 'tty')];
      writeFileSync(script, `stty cols ${cols} rows ${rows}\ntty > ${device}\n${line}\n`);
      const typed = start(`exec script -qfec 'sh ${script}' /dev/null`);
      const resize = (size: WindowSize) => {
        const tty = readFileSync(device, 'utf8').trim();
        execFileSync('stty', ['-F', tty, 'cols', String(size.cols), 'rows', String(size.rows)]);
      };
      return Object.assign(typed, { resize });
    },
    async run(line) {
      const typed = start(line);
      const code = await typed.ended;
      return { code, out: typed.out, err: typed.err };
    },
    async [Symbol.asyncDispose]() {
      for (const child of running) signal(child, 'SIGKILL');
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Sends a signal to a line and what it started, as Ctrl-C does. */
function signal({ pid, exitCode, signalCode }: ChildProcessWithoutNullStreams, name: NodeJS.Signals): void {
  if (pid !== undefined && exitCode === null && signalCode === null) process.kill(-pid, name);
}

/** A kubeconfig whose context has another namespace. */
function inNamespace(kubeconfig: string, namespace: string): string {
  const config = parse(kubeconfig);
  for (const { context } of config.contexts) context.namespace = namespace;
  return stringify(config);
}

/** A command line of a page, and what it shows there. */
interface Shown {
  command: string;
  lines: string[];
}

/** The command lines in a section of a page, up to the next heading. */
export function shownCommands(page: string, heading: string): Shown[] {
  const [, section = ''] = page.split(`\n${heading}\n`);
  const own = section.split(/^#+ /m)[0] ?? '';
  return [...own.matchAll(/^ {4}\$ (.*)\n((?: {4}(?!\$ ).*\n)*)/gm)].map(([, command = '', output = '']) => ({
    command,
    lines: output.replace(/^ {4}/gm, '').split('\n').slice(0, -1),
  }));
}

/** Whether an output is that of a page, where `<...>` stands for what differs from case to case. */
export function isAsShown(output: string, lines: readonly string[]): boolean {
  const pattern = lines
    .map((line) => line.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replace(/<[^<>]*>/g, '.+'))
    .join('\n');
  return new RegExp(`^${pattern}\n$`).test(output);
}

/** Until a line that was typed has written this; types `keys` each time before it looks. */
export async function untilShown(typed: Typed, text: string | RegExp, keys?: string): Promise<void> {
  let code: number | null | undefined;
  void typed.ended.then((given) => {
    code = given;
  });
  const isShown = () => (typeof text === 'string' ? typed.out.includes(text) : text.test(typed.out));
  const look = async () => {
    if (isShown()) return true;
    const seen = `${JSON.stringify(typed.out.slice(-500))}, ${JSON.stringify(typed.err.slice(-500))}`;
    if (code !== undefined) throw new FinalError(`it ended with ${code}: ${seen}`);
    if (keys !== undefined) typed.type(keys);
    throw new Error(`so far: ${seen}`);
  };
  await until(JSON.stringify(String(text)), look, { intervalMs: 100 });
}
