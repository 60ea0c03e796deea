import { execFile, fork } from 'node:child_process';
import { on } from 'node:events';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { bundle } from './build.ts';

const run = promisify(execFile);
const dir = temporaryFolder();

test.each(['skerry', 'skerry-agent'] as const)('%s runs as one file, without node_modules', async (name) => {
  const { path, bytes } = await bundle(name, dir);
  const { stdout } = await run(process.execPath, [path, '--help'], { cwd: dir });
  expect(stdout).toContain(name);
  expect(bytes).toBeLessThan(8 * 2 ** 20);
});

test('the agent of a release says its commit and the time of that, and is the same bytes when it is built twice', async () => {
  const origin = { version: '0.1.0', revision: 'c0ffee'.padEnd(40, '0'), created: new Date('2026-11-24T03:00:00Z') };
  const [one, two] = await Promise.all(
    ['one', 'two'].map(async (name) => (await bundle('skerry-agent', join(dir, name), origin)).path),
  );
  const { stdout } = await run(process.execPath, [one ?? '', 'version', '--output', 'json']);
  expect(JSON.parse(stdout)).toMatchObject({ buildTime: '2026-11-24T03:00:00.000Z', gitCommit: origin.revision });
  expect((await readFile(one ?? '')).equals(await readFile(two ?? ''))).toBe(true);
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
