import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { recordedProcess } from '../hack/process.ts';
import { waitFor } from '../hack/wait.ts';

/** `make up`, with another folder and other ports than those of a stack that may run here. */
const dir = mkdtempSync(join(tmpdir(), 'skerry-first-'));
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
  rmSync(dir, { recursive: true, force: true });
}, 60_000);

/** Commands of an indented block: its lines that are no output. */
function commandsOf(text: string): string[] {
  const lines = text.split('\n').filter((line) => /^ {4}(\. |kubectl |curl |skerry-agent )/.test(line));
  return lines.map((line) => line.trim());
}

/** Types a command in a shell that has sourced nothing. */
function typed(command: string): Promise<{ code: number; output: string }> {
  return new Promise((resolve) =>
    execFile('/bin/sh', ['-c', command], { timeout: 60_000 }, (error, out, err) =>
      resolve({ code: error ? Number(error.code ?? 1) : 0, output: `${out}${err}` }),
    ),
  );
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
