import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { createTestAgent, runAgent } from '../../_agent.ts';
import { plainView } from '../../_web.ts';
import type { Agent } from '../../app.ts';
import { until } from '../../engines/_contract.ts';
import { MemoryEngine } from '../../engines/memory/_engine.ts';
import { FakeController, type View } from '../../link/_fake-controller.ts';
import { filesOnDisk } from '../../machine/mounted-files.ts';
import { memoryIdentity } from '../../state/_identity.ts';
import { memoryDatabase } from '../../state/database.ts';
import { MOUNT, mount, mounted } from './_mount.ts';

/** Volume mounts and tokens from the controller's response to the containers, with an engine in memory. */

let folder: string;
let controller: FakeController;
let engine: MemoryEngine;
let database: ReturnType<typeof memoryDatabase>;
let identity: ReturnType<typeof memoryIdentity>;
let end: () => Promise<void>;
let agent: Agent;

beforeEach(async () => {
  folder = temporaryFolder();
  controller = await new FakeController().listen();
  engine = new MemoryEngine({ anyImage: true });
  database = memoryDatabase();
  identity = memoryIdentity();
  start();
  await agent.provision(controller.joinString);
});

afterEach(async () => {
  await end();
  await controller.close();
});

let remove: (path: string) => void;

function start(): void {
  const files = filesOnDisk(join(folder, 'volumes'));
  remove = files.remove;
  agent = createTestAgent({
    folder,
    engine: () => engine,
    database,
    identity,
    mountedFiles: { ...files, remove: (path) => remove(path) },
  });
  end = runAgent(agent);
}

const WEB = '11111111-1111-4111-8111-111111111111';
const view = (hostDestination?: string, change: Partial<View> = {}): View =>
  plainView({ uuid: WEB, volumeMappings: hostDestination ? [mounted(hostDestination, '/etc/x')] : [], ...change });

function want(views: View[], mounts: unknown[] = controller.volumeMounts): void {
  controller.change({ microservices: views, volumeMounts: mounts });
}

const status = () => controller.microservice(WEB);
const runs = () => until('RUNNING', () => status()?.status === 'RUNNING');
const source = async () => (await engine.containers())[0]?.binds?.[0]?.source ?? '';
const started = async () => (await engine.containers()).map(({ id, startedAt }) => `${id}@${startedAt}`);

test('a microservice waits QUEUED for its volume mount, which the message names, and runs when it has arrived', async () => {
  want([view('creds')]);
  const waiting = await until('the reason', () => status()?.reason === 'WaitingForVolumeMount' && status());
  expect(waiting).toMatchObject({
    status: 'QUEUED',
    errorMessage: 'waits for volume mount "creds", which has not arrived',
  });
  expect(await engine.containers()).toEqual([]);
  want([view('creds')], [mount({ user: 'ann' })]);
  await runs();
  expect(readFileSync(join(await source(), 'user'), 'utf8')).toBe('ann');
  await until('the report', () => controller.said.activeVolumeMounts === 1 && controller.said.volumeMountLastUpdate);
});

test('another value reaches the mounted directory without another container', async () => {
  want([view('creds')], [mount({ user: 'ann' })]);
  await runs();
  const before = await started();
  want([view('creds')], [mount({ user: 'bob' })]);
  await until('the new value', async () => readFileSync(join(await source(), 'user'), 'utf8') === 'bob');
  expect(await started()).toEqual(before);
});

test('another value of a single key makes another container, another key does not', async () => {
  want([view('creds/user')], [mount({ user: 'ann', other: '1' })]);
  await runs();
  const before = await started();
  want([view('creds/user')], [mount({ user: 'ann', other: '2' })]);
  await until('the other key', () => readFileSync(join(folder, 'volumes/secrets', MOUNT, 'other'), 'utf8') === '2');
  expect(await started()).toEqual(before);
  want([view('creds/user')], [mount({ user: 'bob', other: '2' })]);
  await until('the new value', async () => {
    const [container, ...more] = await engine.containers();
    return container?.state === 'running' && more.length === 0 && readFileSync(await source(), 'utf8') === 'bob';
  });
  // What only the old container bound is removed with it.
  await until('no older file', () => readdirSync(join(folder, 'volumes/secrets')).length === 2);
});

test('a key that goes away leaves the container that runs, and the status says what it waits for', async () => {
  want([view('creds/user')], [mount({ user: 'ann' })]);
  await runs();
  const before = await started();
  want([view('creds/user')], [mount({ other: '1' })]);
  const held = await until('the reason', () => status()?.reason === 'WaitingForVolumeMount' && status());
  expect(held).toMatchObject({
    status: 'RUNNING',
    errorMessage: 'waits for volume mount "creds", which has no key "user"',
  });
  expect(await started()).toEqual(before);
  expect(readFileSync(await source(), 'utf8')).toBe('ann');
});

test('an agent that starts without a controller makes the containers again, with the content that it saved', async () => {
  want([view('creds')], [mount({ user: 'ann' })]);
  await runs();
  await end();
  await controller.close();
  engine = new MemoryEngine({ anyImage: true });
  rmSync(join(folder, 'volumes'), { recursive: true });
  start();
  await until('a container', async () => (await engine.containers())[0]?.state === 'running');
  expect(readFileSync(join(await source(), 'user'), 'utf8')).toBe('ann');
  await controller.listen();
});

test('a removed volume mount is gone from the disk once no container binds it', async () => {
  want([view('creds')], [mount({ user: 'ann' })]);
  await runs();
  want([view('creds')], []);
  await until('the reason', () => status()?.reason === 'WaitingForVolumeMount');
  expect(readFileSync(join(await source(), 'user'), 'utf8')).toBe('ann');
  want([view(undefined, { revision: 'r2' })], []);
  await until('an empty folder', () => readdirSync(join(folder, 'volumes/secrets')).length === 0);
});

test('a volume mount that the disk does not let go is a problem of the node, and supervision goes on', async () => {
  want([view('creds')], [mount({ user: 'ann' })]);
  await runs();
  remove = () => {
    throw new Error('EROFS: read-only file system, rm');
  };
  want([view(undefined, { revision: 'r2' })], []);
  await until('the problem', () => agent.problems.some((each) => each.includes('EROFS')));
  await until('the next revision', () => status()?.status === 'RUNNING' && status()?.revision === 'r2');
});

test('no secret is left on the disk after the agent was deprovisioned', async () => {
  want([view('creds', { serviceAccount: { name: 'web', rules: [] } })], [mount({ user: 'ann' })]);
  await runs();
  await agent.deprovision('all');
  await until('empty folders', () =>
    ['secrets', 'serviceaccounts'].every((name) => readdirSync(join(folder, 'volumes', name)).length === 0),
  );
});

test('a container has the token of its microservice mounted read-only, and a microservice without an account has none', async () => {
  want([view(undefined, { serviceAccount: { name: 'web', rules: [] } })]);
  await runs();
  const [bind, ...more] = (await engine.containers())[0]?.binds ?? [];
  expect([bind, more]).toEqual([{ source: join(folder, 'volumes/serviceaccounts', WEB), writable: false }, []]);
  expect(readFileSync(join(bind?.source ?? '', 'token'), 'utf8')).toMatch(/^ey/);
  want([view(undefined, { serviceAccount: null, revision: 'r2', env: [{ key: 'A', value: '1' }] })]);
  await until('a container without', async () => {
    const [container, ...others] = await engine.containers();
    return others.length === 0 && container?.state === 'running' && container.binds?.length === 0;
  });
  await until('no token', () => !existsSync(join(folder, 'volumes/serviceaccounts', WEB)));
});
