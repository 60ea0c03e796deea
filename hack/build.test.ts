import { execFile, fork } from 'node:child_process';
import { on } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { bundle } from './build.ts';

const run = promisify(execFile);
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'skerry-build-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

test.each(['skerry', 'skerry-agent'] as const)('%s runs as one file, without node_modules', async (name) => {
  const { path, bytes } = await bundle(name, dir);
  const { stdout } = await run(process.execPath, [path, '--help'], { cwd: dir });
  expect(stdout).toContain(name);
  expect(bytes).toBeLessThan(8 * 2 ** 20);
});

test('kubectl-skerry is a program that kubectl finds and runs as its plugin', async () => {
  const { path } = await bundle('kubectl-skerry', dir);
  const { stdout } = await run(path, ['--help'], {
    cwd: dir,
    env: { PATH: `${dirname(process.execPath)}:/usr/bin:/bin` },
  });
  expect(stdout).toContain('kubectl skerry');
});

test('skerry-templates renders without access to files', async () => {
  const { path } = await bundle('skerry-templates', dir);
  const child = fork(path, [], { env: {}, execArgv: ['--permission', `--allow-fs-read=${path}`] });
  const messages = on(child, 'message');
  try {
    expect((await messages.next()).value).toEqual([{ ready: true }, undefined]);
    child.send({ render: { document: { a: '{{ 1 | plus: 1 }}' } } });
    expect((await messages.next()).value).toEqual([{ done: { a: 2 } }, undefined]);
  } finally {
    child.kill();
  }
});
