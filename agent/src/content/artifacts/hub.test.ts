import { spawnSync } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readdirSync, statSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { listenForTest } from '../../../../testing/local-server.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { Policy } from '../../domain/policy.ts';
import { until } from '../../engines/_contract.ts';
import { hubAndMachine } from './_fixture.ts';
import { type HubFault, TestHub } from './_hub.ts';
import { bindingEntry, makeArtifact, TestMachine } from './_machine.ts';

/** A large file is at the other origin. */
const LARGE = randomBytes(300_000);
const onlyFirst = (text: string, fault: HubFault) => (path: string, attempt: number) =>
  path.includes(text) && attempt === 1 ? fault : undefined;

test('a repository of a hub arrives at the commit of its branch, small files and large ones', async () => {
  const { hub, machine } = await hubAndMachine();
  const commit = hub.commit('models/team/tiny', { 'config.json': '{}', 'sub/weights.bin': LARGE });
  const status = await machine.pulls();
  expect(status).toMatchObject({
    ...{
      resolvedRevision: commit,
      revisionFloating: true,
      totalBytes: LARGE.length + 2,
      lastError: '',
      percentage: 100,
    },
    digest: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
  });
  expect(machine.blobs).toHaveLength(2);
});

test('knowledge comes from the datasets of a hub', async () => {
  const { hub, machine } = await hubAndMachine();
  hub.commit('datasets/team/facts', { 'a.txt': 'fact' });
  machine.want('knowledge', makeArtifact({ repo: 'team/facts', name: 'facts' }));
  await machine.reaches('knowledge', 'facts', 'Ready');
  expect(hub.count('/datasets/team/facts/resolve/')).toBe(1);
});

test('only the files that the globs select are pulled', async () => {
  const { machine } = await hubAndMachine({ 'a.gguf': 'a', 'sub/b.gguf': 'b', 'c.bin': 'c', 'readme.md': 'r' });
  const uuid = randomUUID();
  machine.run(bindingEntry(uuid, ['tiny']));
  await machine.pulls(makeArtifact({ files: ['**/*.gguf', 'readme.*'] }));
  await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
  expect(machine.files('volumes/models', uuid, 'ro')).toEqual({
    'tiny/a.gguf': 'a',
    'tiny/sub/b.gguf': 'b',
    'tiny/readme.md': 'r',
  });
});

test('globs that select nothing fail with a text that names them', async () => {
  const { machine } = await hubAndMachine({ 'a.gguf': 'a' });
  expect(await machine.failureOf(makeArtifact({ files: ['*.onnx'] }))).toBe(
    'no file of team/tiny at main matches *.onnx',
  );
});

test('a download that is cut goes on where it ended', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  hub.fault = onlyFirst('/stored/', { cutAfter: 100_000, once: () => machine.received === 100_000 });
  await machine.pulls();
  const ranges = hub.requests.filter(({ origin }) => origin === 'store').map(({ range }) => range);
  expect(ranges).toEqual([undefined, 'bytes=100000-']);
});

test('a download goes on where it ended after a restart of the process', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  const once = () => machine.received === 100_000;
  hub.fault = (path, attempt) =>
    path.includes('/stored/') ? (attempt === 1 ? { cutAfter: 100_000, once } : { hang: true }) : undefined;
  machine.want('models', makeArtifact());
  await until('the second attempt', () => hub.count('/stored/') >= 2);
  await machine.stop();
  hub.fault = undefined;
  machine.start();
  await machine.reaches('models', 'tiny', 'Ready');
  expect(hub.requests.at(-1)?.range).toBe('bytes=100000-');
});

test('a server that ignores ranges gives the file from its beginning', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  hub.fault = (path, attempt) =>
    path.includes('/stored/') ? (attempt === 1 ? { cutAfter: 100_000 } : { ignoreRange: true }) : undefined;
  expect((await machine.pulls()).totalBytes).toBe(LARGE.length);
});

test('a partial download whose beginning is damaged is pulled again from its beginning', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  hub.fault = (path, attempt) => {
    if (!path.includes('/stored/')) return undefined;
    // The first response is cut and wrong: what it leaves on the disk cannot be the beginning of the file.
    return attempt === 1 ? { cutAfter: 100_000 } : attempt === 2 ? { flip: true } : undefined;
  };
  await machine.pulls();
  expect(hub.requests.filter(({ origin }) => origin === 'store').at(-1)?.range).toBeUndefined();
});

test.each([
  ['a small file', { 'config.json': '{"a":1}' }, 'config.json'],
  ['a large file', { 'weights.bin': LARGE }, 'weights.bin'],
])('%s with a wrong checksum never becomes Ready, and leaves nothing in the store', async (_name, files, name) => {
  const { hub, machine } = await hubAndMachine();
  hub.commit('models/team/tiny', files);
  hub.fault = (path) => (path.endsWith(name) ? { flip: true } : undefined);
  expect(await machine.failureOf()).toMatch(
    new RegExp(`^${name} does not have the checksum [0-9a-f]+ that was announced$`),
  );
  expect(machine.blobs).toEqual([]);
});

test('a connection that stays silent ends and is tried again', async () => {
  const { hub, machine } = await hubAndMachine();
  await machine.stop();
  machine.quiet = 50;
  machine.start();
  hub.commit('models/team/tiny', { 'weights.bin': LARGE });
  hub.fault = onlyFirst('/stored/', { cutAfter: 1 });
  await machine.pulls();
});

test('the token goes to the hub and not to where it redirects to', async () => {
  const { hub, machine } = await hubAndMachine();
  hub.token = 'hf_secret';
  machine.registry({ url: hub.url, type: 'hub', password: 'hf_secret' });
  hub.commit('models/team/tiny', { 'weights.bin': LARGE });
  await machine.pulls();
  const sent = new Set(hub.requests.map(({ origin, authorization }) => `${origin} ${authorization !== undefined}`));
  expect(sent).toEqual(new Set(['hub true', 'store false']));
});

test('a wrong token fails with a text that does not repeat it, and another one is tried at once', async () => {
  const { hub, machine } = await hubAndMachine();
  hub.token = 'hf_right';
  machine.registry({ url: hub.url, type: 'hub', password: 'hf_wrong' });
  hub.commit('models/team/tiny', { a: 'a' });
  expect(await machine.failureOf()).toMatch(/^the hub 127.0.0.1:\d+ refuses the token$/);
  machine.registry({ url: hub.url, type: 'hub', password: 'hf_right' });
  await machine.reaches('models', 'tiny', 'Ready');
  expect(machine.logged).not.toMatch(/hf_(wrong|right)/);
});

test('a hub that wants a token and gets none fails with that reason', async () => {
  const { hub, machine } = await hubAndMachine();
  hub.token = 'hf_right';
  hub.commit('models/team/tiny', { a: 'a' });
  expect(await machine.failureOf()).toMatch(/^the hub 127.0.0.1:\d+ wants a token$/);
});

test('a revision that does not exist fails with its name, and one that appears is found', async () => {
  const { hub, machine } = await hubAndMachine();
  expect(await machine.failureOf(makeArtifact({ revision: 'v1' }))).toBe(
    'the repository team/tiny at v1 does not exist',
  );
  hub.commit('models/team/tiny', { a: 'a' }, 'v1');
  await machine.reaches('models', 'tiny', 'Ready');
});

test('a hub that is asked too often is asked again after the time that it names', async () => {
  const { hub, machine } = await hubAndMachine({ a: 'a' });
  hub.fault = onlyFirst('/revision/', { status: 429, headers: { 'retry-after': '1' } });
  const began = performance.now();
  await machine.pulls();
  expect(performance.now() - began).toBeGreaterThan(950);
});

test('a repository with a file name that leads out of its directory is refused', async () => {
  const { machine } = await hubAndMachine({ '../../etc/cron.d/x': 'x' });
  expect(await machine.failureOf()).toMatch(/no path below a directory/);
});

test('a machine whose policy does not name the hub pulls nothing from it', async () => {
  const { hub, machine } = await hubAndMachine();
  machine.policy = { registries: ['registry.example'] };
  hub.commit('models/team/tiny', { a: 'a' });
  expect(await machine.failureOf()).toMatch(/the machine takes nothing from/);
  expect(hub.requests).toEqual([]);
});

test('an artifact that does not fit on the disk is not begun', async () => {
  const { hub, machine } = await hubAndMachine();
  machine.room = { total: 1024 ** 3, available: 64 * 1024 ** 2 + 100_000 };
  hub.commit('models/team/tiny', { 'weights.bin': LARGE });
  expect(await machine.failureOf()).toMatch(/^it needs 293 KiB, and the disk has/);
  expect(hub.count('/resolve/')).toBe(0);
  machine.room = { total: 1024 ** 3, available: 1024 ** 3 };
  await machine.reaches('models', 'tiny', 'Ready');
});

test('the disk limit of the node counts', async () => {
  const { hub, machine } = await hubAndMachine();
  machine.room = { total: 1024 ** 4, available: 1024 ** 4, used: 900_000, limit: 1_000_000 };
  hub.commit('models/team/tiny', { 'weights.bin': LARGE });
  expect(await machine.failureOf()).toMatch(/the disk limit of 977 KiB leaves 98 KiB/);
});

test('the rate limit of the machine holds for all pulls together', async () => {
  const { hub, machine } = await hubAndMachine();
  machine.rateLimit = 500_000;
  hub.commit('models/team/tiny', { 'weights.bin': LARGE });
  hub.commit('models/team/other', { 'weights.bin': randomBytes(200_000) });
  const began = performance.now();
  machine.want('models', makeArtifact(), makeArtifact({ name: 'other', repo: 'team/other' }));
  await machine.reaches('models', 'tiny', 'Ready');
  await machine.reaches('models', 'other', 'Ready');
  expect(performance.now() - began).toBeGreaterThan(900);
});

test('a content that two artifacts share is pulled once and kept once', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  hub.commit('datasets/team/copy', { 'other.bin': LARGE });
  machine.want('models', makeArtifact());
  machine.want('knowledge', makeArtifact({ name: 'copy', repo: 'team/copy' }));
  await machine.reaches('models', 'tiny', 'Ready');
  await machine.reaches('knowledge', 'copy', 'Ready');
  expect(machine.blobs).toHaveLength(1);
});

test('a pull of what is no longer wanted ends, and its download is removed', async () => {
  const { hub, machine } = await hubAndMachine({ 'weights.bin': LARGE });
  hub.fault = (path) => (path.includes('/stored/') ? { cutAfter: 1000 } : undefined);
  machine.want('models', makeArtifact());
  await until('the pull to begin', () => hub.count('/stored/') > 0);
  machine.want('models');
  await until('the end of the pull', () => machine.counted['artifactPulls models given-up'] === 1);
  await until('an empty store', () => readdirSync(join(machine.folder, 'artifacts/partial')).length === 0);
});

describe('a branch', () => {
  async function ready() {
    const { hub, machine } = await hubAndMachine();
    hub.large = 4;
    const first = hub.commit('models/team/tiny', { 'a.txt': 'one!', 'same.txt': 'same' });
    const uuid = randomUUID();
    await machine.stop();
    machine.lookUpEvery = 30;
    machine.start();
    machine.run(bindingEntry(uuid, ['tiny']));
    machine.want('models', makeArtifact());
    await until('the projection', () => machine.artifacts.waitOf(uuid) === undefined);
    const seen = () => machine.files('volumes/models', uuid, 'ro');
    const lookUps = (outcome: string) => machine.counted[`artifactLookUps models ${outcome}`] ?? 0;
    return { hub, machine, uuid, first, seen, lookUps };
  }

  test('is looked up again, and a commit that is new is pulled and shown in its place', async () => {
    const { hub, machine, uuid, first, seen, lookUps } = await ready();
    await until('two look-ups', () => lookUps('same') >= 2);
    expect(hub.count('/stored/')).toBe(2);
    const second = hub.commit('models/team/tiny', { 'a.txt': 'two!', 'same.txt': 'same' });
    const states = new Set<string | undefined>();
    await until('the new commit', () => {
      states.add(machine.status('models', 'tiny')?.state);
      return seen()['tiny/a.txt'] === 'two!';
    });
    expect(second).not.toBe(first);
    expect(machine.status('models', 'tiny')).toMatchObject({ resolvedRevision: second, revisionFloating: true });
    // What is here counts until the next content is complete.
    expect([[...states], machine.artifacts.waitOf(uuid)]).toEqual([['Ready'], undefined]);
    expect(hub.count('/stored/')).toBe(3);
    expect(lookUps('newer')).toBe(1);
  });

  test('that cannot be looked up keeps what is there, and the status says why', async () => {
    const { hub, machine, uuid, seen, lookUps } = await ready();
    hub.fault = () => ({ status: 503 });
    await until('two failures', () => lookUps('Unavailable') >= 2);
    expect(machine.status('models', 'tiny')).toMatchObject({ state: 'Ready', lastError: /status 503/ });
    expect([seen()['tiny/a.txt'], machine.artifacts.waitOf(uuid)]).toEqual(['one!', undefined]);
    hub.fault = undefined;
    await until('no failure', () => machine.status('models', 'tiny')?.lastError === '');
  });

  test('whose new commit cannot be pulled keeps what is there, and the next attempt succeeds', async () => {
    const { hub, machine, seen } = await ready();
    hub.fault = (path) => (path.includes('/stored/') ? { status: 404 } : undefined);
    hub.commit('models/team/tiny', { 'a.txt': 'two!' });
    await until('the failure', () => machine.status('models', 'tiny')?.lastError);
    expect([machine.status('models', 'tiny')?.state, seen()['tiny/a.txt']]).toEqual(['Ready', 'one!']);
    hub.fault = undefined;
    await until('the new commit', () => seen()['tiny/a.txt'] === 'two!');
  });

  test('is looked up again after a start, and a commit never is', async () => {
    const { hub, machine, first } = await ready();
    machine.want('models', makeArtifact({ revision: first }));
    await until('the pin', () => machine.status('models', 'tiny')?.revisionFloating === false);
    hub.commit('datasets/team/facts', { 'a.txt': 'fact' });
    machine.want('knowledge', makeArtifact({ repo: 'team/facts', name: 'facts' }));
    await machine.reaches('knowledge', 'facts', 'Ready');
    await machine.stop();
    const before = hub.requests.length;
    machine.start();
    const asked = (text: string) => hub.requests.slice(before).filter(({ path }) => path.includes(text)).length;
    await until('look-ups of the branch', () => asked('/datasets/') >= 2);
    expect(asked('/models/')).toBe(0);
  });
});

describe('room on the disk that ends during a pull', () => {
  const weights = Buffer.alloc(40_000_000, 'w');
  const ranges = (hub: TestHub) => hub.requests.filter(({ origin }) => origin === 'store').map(({ range }) => range);

  test('ends the pull before the reserve is used up, and the next one goes on where it ended', async () => {
    const { hub, machine } = await hubAndMachine();
    const free = { total: 1024 ** 3, available: 1024 ** 3 };
    const arrived = () => readdirSync(join(machine.folder, 'artifacts/partial')).length > 0;
    // Another program takes the room while the first bytes arrive.
    let isTaken = true;
    const taken = { total: 1024 ** 3, available: 60 * 1024 ** 2 };
    Object.defineProperty(machine, 'room', { get: () => (isTaken && arrived() ? taken : free) });
    hub.commit('models/team/tiny', { 'weights.bin': weights });
    expect(await machine.failureOf()).toMatch(
      /^it needs 0 KiB, and the disk has 0 KiB left apart from the 64.0 MiB that stay free$/,
    );
    const [name = ''] = readdirSync(join(machine.folder, 'artifacts/partial')).filter((each) => !each.includes('.'));
    const kept = statSync(join(machine.folder, 'artifacts/partial', name)).size;
    expect([kept >= 16 * 1024 ** 2, kept < weights.length]).toEqual([true, true]);
    isTaken = false;
    await machine.reaches('models', 'tiny', 'Ready');
    expect(ranges(hub)).toEqual([undefined, `bytes=${kept}-`]);
  });

  /** A file system of one mebibyte; undefined where none can be mounted. */
  function smallDisk(): string | undefined {
    const folder = temporaryFolder();
    const isMounted = spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'skerry', folder]).status === 0;
    if (!isMounted) return undefined;
    onTestFinished(() => void spawnSync('umount', ['-l', folder]));
    return folder;
  }

  test('on a full file system is a failure of this pull, which goes on when there is room again', async ({ skip }) => {
    const disk = smallDisk();
    if (!disk) return skip('no file system can be mounted here');
    const hub = await TestHub.start();
    const machine = new TestMachine(join(disk, 'machine')).start();
    onTestFinished(async () => {
      await machine[Symbol.asyncDispose]();
      await hub[Symbol.asyncDispose]();
    });
    machine.registry({ url: hub.url, type: 'hub' });
    hub.commit('models/team/tiny', { 'weights.bin': weights.subarray(0, 3_000_000) });
    expect(await machine.failureOf()).toBe('the disk is full');
    expect(spawnSync('mount', ['-o', 'remount,size=16m', disk]).status).toBe(0);
    await machine.reaches('models', 'tiny', 'Ready');
    expect(ranges(hub).at(-1)).toMatch(/^bytes=\d{6,7}-$/);
  });
});

describe('a hub that redirects to another host', () => {
  /** A hub whose list says nothing of its only file, and that redirects to a service of the machine's network. */
  async function redirecting(headers: Record<string, string>, policy: Partial<Policy> = {}, status = 200) {
    const said = status === 200 ? 'what only this machine may read' : '{"message":"key 4711 is unknown"}';
    const secret = createServer((_incoming, outgoing) => outgoing.writeHead(status).end(said));
    const hub = createServer(({ url = '' }, outgoing) => {
      if (url.startsWith('/api/'))
        return outgoing.end(JSON.stringify({ sha: 'a'.repeat(40), siblings: [{ rfilename: 'a.txt' }] }));
      return outgoing.writeHead(302, { location: `${urlOf(secret)}/keys`, ...headers }).end();
    });
    for (const server of [hub, secret]) await listenForTest(server);
    const host = urlOf(hub).replace('http://', '');
    return machineOf(urlOf(hub), { ...policy, ...(policy.registries && { registries: [host] }) });
  }
  /** A machine that wants its file. */
  function machineOf(url: string, policy: Partial<Policy> = {}) {
    const machine = new TestMachine().start();
    onTestFinished(() => machine[Symbol.asyncDispose]());
    machine.policy = policy;
    machine.registry({ url, type: 'hub' });
    machine.want('models', makeArtifact());
    return machine;
  }
  const urlOf = (server: Server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

  test('gives no file when it names no checksum of it', async () => {
    const machine = await redirecting({});
    const { lastError } = await machine.reaches('models', 'tiny', 'Failed');
    expect(lastError).toBe('the hub leads elsewhere for the file a.txt of team/tiny and names no checksum of it');
    expect(machine.blobs).toEqual([]);
  });

  /** A hub that redirects to a path of its own name, which may mean another address by then. */
  async function redirectingWithin(to: (path: string) => string) {
    const hub = createServer(({ url = '' }, outgoing) => {
      if (url.startsWith('/api/'))
        return outgoing.end(JSON.stringify({ sha: 'a'.repeat(40), siblings: [{ rfilename: 'a.txt' }] }));
      if (to(url) === url) return outgoing.end('content');
      return outgoing.writeHead(302, { location: to(url) }).end();
    });
    return machineOf(`http://127.0.0.1:${await listenForTest(hub)}`);
  }

  test('by the name of its own host gives no file when it names no checksum of it', async () => {
    const machine = await redirectingWithin(() => '/containers/json');
    const { lastError } = await machine.reaches('models', 'tiny', 'Failed');
    expect(lastError).toBe('the hub leads elsewhere for the file a.txt of team/tiny and names no checksum of it');
    expect(machine.blobs).toEqual([]);
  });

  test('to the same path with another query gives a file without a checksum', async () => {
    const machine = await redirectingWithin((path) => (path.includes('?') ? path : `${path}?download=true`));
    await machine.reaches('models', 'tiny', 'Ready');
  });

  test('gives no file whose checksum it does not know, and does not learn the checksum', async () => {
    const machine = await redirecting({ 'x-linked-etag': `"${sha256('something else')}"` });
    const { lastError } = await machine.reaches('models', 'tiny', 'Failed');
    expect(lastError).toMatch(/was announced$/);
    expect(lastError).not.toContain(sha256('what only this machine may read'));
    expect(machine.blobs).toEqual([]);
  });

  test('does not learn why that host refuses the request', async () => {
    const machine = await redirecting({ 'x-linked-etag': `"${sha256('something else')}"` }, {}, 400);
    const { lastError } = await machine.reaches('models', 'tiny', 'Failed');
    expect(lastError).toBe('the file a.txt of team/tiny: status 400');
  });

  test('gives a file whose checksum it names', async () => {
    const machine = await redirecting({ 'x-linked-etag': `"${sha256('what only this machine may read')}"` });
    await machine.reaches('models', 'tiny', 'Ready');
  });

  test('is not followed when the policy names the hub and not that host', async () => {
    const tag = `"${sha256('what only this machine may read')}"`;
    const machine = await redirecting({ 'x-linked-etag': tag }, { registries: ['the hub'] });
    const { lastError } = await machine.reaches('models', 'tiny', 'Failed');
    expect(lastError).toMatch(/names neither in "registries" nor in "storage"$/);
  });
});
