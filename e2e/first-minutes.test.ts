import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { pushImage } from '../hack/image.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { recordedProcess } from '../hack/process.ts';
import { shellImage } from '../hack/shell-image.ts';
import type { StackFile } from '../hack/stack/files.ts';
import { waitFor } from '../hack/wait.ts';
import { API_VERSION } from '../src/api/names.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';

/** `make up`, with another folder and other ports than a stack that may run here. */
const dir = temporaryFolder();
let samplePort: number;
let printed = '';
let stack: ReturnType<typeof spawn>;
let ended: Promise<number | null>;

beforeAll(async () => {
  const port = await freePort();
  samplePort = await freePort();
  stack = spawn(process.execPath, [join(ROOT, 'hack/up.ts')], {
    env: { ...process.env, SKERRY_STACK: dir, SKERRY_PORT: `${port}`, SKERRY_SAMPLE_PORT: `${samplePort}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const stream of [stack.stdout, stack.stderr]) stream?.on('data', (piece) => (printed += piece));
  ended = new Promise((resolve) => stack.once('close', resolve));
  await waitFor(() => printed.includes('Ctrl-C stops it'), { what: `make up:\n${printed}`, timeoutMs: 300_000 });
}, 320_000);

afterAll(async () => {
  stack.kill('SIGTERM');
  await ended;
}, 60_000);

/** Commands of an indented block: its lines that are no output. */
function commandsOf(text: string): string[] {
  const lines = text.split('\n').filter((line) => /^ {4}(\. |kubectl |curl |skerry-agent )/.test(line));
  return lines.map((line) => line.trim());
}

/**
 * Types a command in a shell that has sourced nothing. `lines`: on a terminal, where the program gets them once it has printed something.
 * `until`: text in its output at which it is interrupted.
 */
function typed(
  command: string,
  { lines, until }: { lines?: string; until?: string } = {},
): Promise<{ code: number; output: string }> {
  return new Promise((resolve) => {
    const [program, ...args] =
      lines === undefined ? ['/bin/sh', '-c', command] : ['script', '-qefc', command, '/dev/null'];
    // A group of its own, as a job of a terminal.
    const child = spawn(program as string, args, { cwd: dir, detached: true, timeout: 60_000 });
    let output = '';
    const hear = (piece: Buffer) => {
      if (output === '' && lines !== undefined) child.stdin.end(lines);
      output += piece;
      if (until !== undefined && output.includes(until)) process.kill(-(child.pid as number), 'SIGINT');
    };
    child.stdout.on('data', hear);
    child.stderr.on('data', hear);
    if (lines === undefined) child.stdin.end();
    // As a shell counts a program that was interrupted.
    child.once('close', (code, signal) => resolve({ code: code ?? (signal === 'SIGINT' ? 130 : 1), output }));
  });
}

describe('make up', () => {
  const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
  const section = readme.slice(readme.indexOf('## Try it'), readme.indexOf('## How it works'));
  const [source = '', ...commands] = commandsOf(section);

  test('leaves a file to source', () => {
    expect(source).toBe('. .skerry/env');
    expect(commands.length).toBeGreaterThan(5);
  });

  test.each(commands)('makes the command of the README work as typed: %s', async (command) => {
    const here = command.replace('18080', String(samplePort));
    const { code, output } = await typed(`. '${dir}/env' && ${here}`);
    expect({ code, output }).toMatchObject({ code: 0, output: expect.stringMatching(/\S/) });
    expect(output).not.toMatch(/^error|^\{"code":/m);
  });

  test('makes the commands of docs/sessions.md work as typed', async () => {
    const page = readFileSync(join(ROOT, 'docs/sessions.md'), 'utf8');
    const part = page.slice(page.indexOf('## On the command line'), page.indexOf('- `exec` passes bytes on'));
    const lines = [...part.matchAll(/^ {4}\$ (kubectl |export SKERRY_TOKEN).*/gm)].map(([line]) => line.slice(6));
    expect(lines.length).toBeGreaterThan(10);

    const { registry, node } = JSON.parse(readFileSync(join(dir, 'stack.json'), 'utf8')) as StackFile;
    const image = shellImage({
      cmd: ['/bin/sh', '-c', 'echo begun; while :; do sleep 3600; done'],
      files: [{ path: '/etc/app.conf', content: 'port: 80\n' }],
    });
    const { reference } = await pushImage(registry, 'test/plant', '1', image);
    const microservices = ['reader', 'second'].map((name) => ({
      ...{ name, agent: { name: node }, images: { amd64: reference, arm64: reference } },
    }));
    const metadata = { name: 'plant-a', labels: { site: 'north' } };
    const application = { apiVersion: API_VERSION, kind: 'Application', metadata, spec: { microservices } };
    writeFileSync(join(dir, 'plant-a.json'), JSON.stringify(application));
    for (const name of ['data', 'app.conf']) writeFileSync(join(dir, name), 'port: 80\n');
    const begin = `. '${dir}/env' && kubectl apply --server-side -f plant-a.json && kubectl wait --for=condition=Ready application/plant-a`;
    expect(await typed(begin)).toMatchObject({ code: 0 });

    let before = `. '${dir}/env'`;
    const wrong: unknown[] = [];
    for (const line of lines) {
      const command = `${before} && ${line.replace('gw-1', node)}`;
      if (line.startsWith('export ')) before = command;
      const isTerminal = line.includes(' -it ');
      const { code, output } = await typed(command, {
        ...(isTerminal && { lines: 'exit 3\n' }),
        ...(line.includes('logs -f') && { until: 'begun\n' }),
      });
      // Ctrl-C ends a log with 130.
      const expected = isTerminal ? 3 : line.includes('logs -f') ? 130 : 0;
      const hasLog = !line.includes('logs plant') || output.includes('begun');
      if (code !== expected || !hasLog || /^error:/m.test(output)) wrong.push({ line, code, output });
    }
    expect(wrong).toEqual([]);
  }, 120_000);

  test.each([
    ['agent', 'the containers run on'],
    ['controller', 'the agent and the containers run on'],
  ])(
    'starts the %s again when it is killed, and says in one line what ended and what runs on',
    async (part, meanwhile) => {
      const before = printed.length;
      const pid = recordedProcess(dir, part);
      process.kill(pid as number, 'SIGKILL');
      const again = () => {
        const now = recordedProcess(dir, part);
        return now !== undefined && now !== pid;
      };
      await waitFor(again, { what: `another ${part}`, timeoutMs: 60_000 });
      expect(printed.slice(before).trim()).toMatch(
        new RegExp(`^\\[.*\\] The ${part} was ended by SIGKILL and is started again; meanwhile ${meanwhile}$`),
      );
      const ready = async () =>
        (await typed(`. '${dir}/env' && kubectl skerry get apps`)).output.includes('AllRunning');
      await waitFor(ready, { what: 'the sample to be ready', timeoutMs: 60_000 });
      expect((await fetch(`http://127.0.0.1:${samplePort}`)).ok).toBe(true);
    },
  );

  test('ends at Ctrl-C without an error, and names no log', async () => {
    const before = printed.length;
    stack.kill('SIGINT');
    expect(await ended).toBe(0);
    expect(printed.slice(before).trim()).toMatch(/^\[.*\] Stopping; once more ends everything at once$/);
  });
});
