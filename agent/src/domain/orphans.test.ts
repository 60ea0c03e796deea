import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { OtherAgentContainer } from '../engine-port/ownership.ts';
import { isAlive, showAlive } from '../machine/presence.ts';
import { findOrphans, instanceOf, orphanProblem } from './orphans.ts';

const A = 'a'.repeat(32);
const B = 'b'.repeat(32);
const made = (instance: string, nodeUuid = 'node-1', running = true): OtherAgentContainer => ({
  id: randomBytes(8).toString('hex'),
  name: `skerry-${instance.slice(0, 4)}`,
  instance,
  nodeUuid,
  application: 'shop',
  microservice: 'web',
  running,
});

test('the instance of a node is the one that created its containers, and of several the one with most running', () => {
  expect(instanceOf([made(A)], 'node-1')).toBe(A);
  expect(instanceOf([made(A, 'node-1', false), made(A, 'node-1', false), made(B)], 'node-1')).toBe(B);
  expect(instanceOf([made(A, 'node-2')], 'node-1')).toBeUndefined();
  expect(instanceOf([made('no instance')], 'node-1')).toBeUndefined();
});

test('the containers of another agent are no orphans as long as that agent runs', async () => {
  const instance = randomBytes(16).toString('hex');
  const engine = { containersOfOtherAgents: async () => [made(instance), made(B)] };
  const server = showAlive(instance);
  expect(await isAlive(instance)).toBe(true);
  expect((await findOrphans(engine, isAlive)).map((each) => each.instance)).toEqual([B]);
  await new Promise((resolve) => server.close(resolve));
  expect(await isAlive(instance)).toBe(false);
});

test('an agent counts as running when its socket does not accept a connection', async () => {
  const instance = randomBytes(16).toString('hex');
  // Its backlog is full, since the event loop accepts no connection during this turn.
  const busy = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => busy.listen({ path: `\0skerry-agent/${instance}`, backlog: 1 }, resolve));
  expect(await Promise.all(Array.from({ length: 8 }, () => isAlive(instance)))).toEqual(Array(8).fill(true));
  await new Promise((resolve) => busy.close(resolve));
});

test.runIf(process.getuid?.() === 0)(
  'a process of another user that listens in place of an agent does not count as one',
  async () => {
    const instance = randomBytes(16).toString('hex');
    const script = `require('net').createServer().listen(${JSON.stringify(`\0skerry-agent/${instance}`)}, () => console.log('up'))`;
    const stranger = spawn(process.execPath, ['-e', script], { uid: 65534, gid: 65534, cwd: '/' });
    onTestFinished(() => void stranger.kill('SIGKILL'));
    await once(stranger.stdout, 'data');
    expect(await isAlive(instance)).toBe(false);
  },
);

test('only orphans of this node cause a warning', () => {
  expect(orphanProblem([made(A, 'node-2')], 'node-1')).toBeUndefined();
  expect(orphanProblem([made(A)], undefined)).toBeUndefined();
  expect(orphanProblem([made(A)], 'node-1')).toContain('skerry-aaaa; skerry-agent orphans');
});
