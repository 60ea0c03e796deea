import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, expect, test } from 'vitest';
import { until } from '../../agent/src/engines/_contract.ts';
import type { MemoryEngine } from '../../agent/src/engines/memory/_engine.ts';
import type { MemoryProgram } from '../../agent/src/engines/memory/_program.ts';
import { runContainer, startSessions } from '../../agent/src/sessions/_agent.ts';
import type { KubeClient } from '../../src/kube/mod.ts';
import { makeTar } from '../../src/lib/tar/write.ts';
import { startStack } from '../../src/sessions/_stack.ts';
import { storedApplication } from '../../testing/stored.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { createPlugin } from './_plugin.ts';

/** `cp` through the sockets of a controller to an agent whose containers are in memory. */

let engine: MemoryEngine;
const folder = temporaryFolder();
const stack = await startStack();
afterAll(async () => {
  await stack[Symbol.asyncDispose]();
});
beforeEach(async () => {
  ({ engine } = await runContainer(stack.web));
  const agent = await startSessions(stack, { engine, container: () => [...engine.running().values()].flat()[0] });
  return () => agent[Symbol.asyncDispose]();
});
const program = (): Promise<MemoryProgram> => until('the program', () => engine.programs[0]);

/** Of the API server, the one application that the words name. */
const plugin = () => {
  const shop = storedApplication('shop', [
    { name: 'web', uuid: stack.web, agent: { name: 'edge-1' }, images: { amd64: 'x' } },
  ]);
  const origin = new URL(stack.url).origin.replace('ws', 'http');
  return createPlugin({ find: async () => shop } as unknown as KubeClient, 'skerry', {
    env: { SKERRY_CONTROLLER: origin, SKERRY_TOKEN: 'admin' },
  });
};

test('copies a file out of a container, and one into it', async () => {
  const out = plugin()('cp', 'shop/web:/etc/app.conf', `${folder}/copied.conf`);
  const reading = await program();
  expect(reading.options.command).toEqual(['tar', '-cf', '-', '-C', '/etc/', './app.conf']);
  reading.print(makeTar([{ path: './app.conf', type: 'file', content: Buffer.from('a: 1') }]));
  reading.exit(0);
  expect(await out).toEqual({ code: 0, out: '', err: '1 file copied\n' });
  expect(readFileSync(join(folder, 'copied.conf'), 'utf8')).toBe('a: 1');

  const back = plugin()('cp', `${folder}/copied.conf`, 'shop/web:/etc/');
  const writing = await until('tar', () => engine.programs[1]);
  expect(writing.options.command).toEqual(['tar', '-xmf', '-', '-C', '/etc/']);
  await until('the end of the archive', () => writing.stdinClosed);
  expect(Buffer.concat(writing.written).toString('latin1')).toMatch(/^copied\.conf\0.*a: 1/s);
  writing.exit(0);
  expect(await back).toEqual({ code: 0, out: '', err: '' });
});

test.each([
  ['a folder gets the file by its own name', '/data', 0, '/data/', 'copied.conf'],
  ['anything else is its new name', '/data/new.conf', 1, '/data/', 'new.conf'],
])('into a container, %s', async (_, target, code, into, name) => {
  const file = join(folder, 'copied.conf');
  writeFileSync(file, 'a: 1');
  const copied = plugin()('cp', file, `shop/web:${target}`);
  const asking = await program();
  expect(asking.options.command).toEqual(['test', '-d', target]);
  asking.exit(code);
  const writing = await until('tar', () => engine.programs[1]);
  expect(writing.options.command).toEqual(['tar', '-xmf', '-', '-C', into]);
  await until('the end of the archive', () => writing.stdinClosed);
  expect(Buffer.concat(writing.written).toString('latin1').split('\0')[0]).toBe(name);
  writing.exit(0);
  expect(await copied).toMatchObject({ code: 0 });
});

test('of a link alone copies nothing, and says so', async () => {
  const copied = plugin()('cp', 'shop/web:/etc/localtime', folder);
  const reading = await program();
  reading.print(makeTar([{ path: './localtime', type: 'symlink', target: 'x' }]));
  reading.exit(0);
  expect(await copied).toMatchObject({
    code: 1,
    err: expect.stringMatching(/symbolic link\nerror: nothing was copied/),
  });
});

test('says that the container has no tar, and what tar says', async () => {
  const first = plugin()('cp', 'shop/web:/etc/app.conf', folder);
  (await program()).exit(127);
  expect(await first).toMatchObject({ code: 1, err: expect.stringMatching(/has no tar, which cp needs/) });
  const second = plugin()('cp', 'shop/web:/etc/none', folder);
  const failing = await until('tar', () => engine.programs[1]);
  failing.print('tar: none: \x1b[2JNo such file', 'stderr');
  failing.exit(2);
  expect(await second).toMatchObject({ code: 1, err: expect.stringMatching(/ended with 2: tar: none: \[2JNo such/) });
  expect(await plugin()('cp', 'a', 'b')).toMatchObject({ code: 2 });
});
