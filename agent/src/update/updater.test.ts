import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { copyFileSync, cpSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:https';
import { basename, join } from 'node:path';
import { build } from 'esbuild';
import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { makeReleaseKey, type ReleaseOptions, writeRelease } from '../../../hack/agent-release.ts';
import { makeCertificate } from '../../../hack/certificate.ts';
import type { Clock } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import type { VersionReply } from '../../../src/wire/agent.ts';
import { releaseKeys } from '../../../src/wire/release-signature.ts';
import { listenForTest } from '../../../testing/local-server.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { systemClock } from '../machine/clock.ts';
import { FileServer, makeProgram, NODE_SCRIPT } from './_program.ts';
import { Program, type Trial } from './program.ts';
import { decideStart, endLateTrial } from './trial.ts';
import { Updater, type UpdaterDependencies } from './updater.ts';

/** Version actions with real files and a real file server. */

const key = makeReleaseKey();
let program: Program;
let server: FileServer;
beforeEach(async () => {
  program = makeProgram({ '1.0.0': 'old' });
  server = await new FileServer(temporaryFolder()).listen();
});

/** Puts a release on the server. */
function publish(
  version: string,
  change: Partial<ReleaseOptions> & { content?: string; nodeContent?: string | Buffer } = {},
) {
  const { content = `agent ${version}`, nodeContent = NODE_SCRIPT, ...options } = change;
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'agent'), content);
  writeFileSync(join(folder, 'node'), nodeContent);
  const files = { agent: join(folder, 'agent'), node: { amd64: join(folder, 'node') } };
  writeRelease({ ...files, version, minimumVersion: '0.1.0', key: key.privateKey, out: server.folder, ...options });
}

const wish = (change: Partial<VersionReply> = {}): VersionReply => ({
  versionCommand: 'upgrade',
  provisionKey: '',
  expirationTime: 0,
  releasesUrl: server.url,
  ...change,
});

/** An updater that has begun an action; `over` resolves when it restarts or has failed. */
function begun(requested: Partial<VersionReply> | undefined = {}, change: Partial<UpdaterDependencies> = {}) {
  const end = new AbortController();
  onTestFinished(() => end.abort());
  let restarted = () => {};
  const restarts = new Promise<'restarts'>((resolve) => {
    restarted = () => resolve('restarts');
  });
  let settled = () => {};
  const settles = new Promise<'settled'>((resolve) => {
    settled = () => resolve('settled');
  });
  const clock = systemClock();
  const updater = new Updater({
    program,
    keys: releaseKeys(key.publicKey),
    version: program.current ?? '',
    architecture: 'amd64',
    clock: { ...clock, after: (ms, callback) => clock.after(ms / 1000, callback) },
    random: Math.random,
    accessTo: () => ({}),
    log: silentLog,
    requested: async () => requested && wish(requested),
    restart: restarted,
    changed: () => updater.isFinished('a1') && settled(),
    ...change,
  });
  updater.resume('a1', end.signal);
  return { updater, over: Promise.race([restarts, settles]) };
}

test('an upgrade fetches the latest release, verifies it and switches to it on trial', async () => {
  publish('1.1.0');
  const { updater, over } = begun();
  expect(updater.isReadyToUpgrade).toBe(false);
  expect(updater.progress).toEqual({ state: 'Downloading' });
  expect(await over).toBe('restarts');
  expect(program.current).toBe('1.1.0');
  expect(readFileSync(join(program.release('1.1.0'), 'agent'), 'utf8')).toBe('agent 1.1.0');
  expect(statSync(join(program.release('1.1.0'), 'node')).mode & 0o111).not.toBe(0);
  expect(program.read('1.1.0').nodeFlags).toContain('--max-semi-space-size=1');
  expect(program.state).toMatchObject({ trial: { version: '1.1.0', from: '1.0.0', action: 'a1', starts: 0 } });
  expect(updater.isFinished('a1')).toBe(false);
});

test('what a Node needs beside it comes with a release, and only what has changed is fetched', async () => {
  const libraries = (content: string) => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'ld.so'), 'the loader');
    writeFileSync(join(folder, 'libnode.so.1'), content);
    return { libraries: { amd64: folder } };
  };
  publish('1.1.0', libraries('one'));
  expect(await begun().over).toBe('restarts');
  const read = (version: string, name: string) => readFileSync(join(program.release(version), 'lib', name), 'utf8');
  expect([read('1.1.0', 'ld.so'), read('1.1.0', 'libnode.so.1')]).toEqual(['the loader', 'one']);
  expect(statSync(join(program.release('1.1.0'), 'lib/ld.so')).mode & 0o777).toBe(0o755);

  program.save({ bad: {} });
  publish('1.2.0', libraries('two'));
  server.requests.length = 0;
  expect(await begun().over).toBe('restarts');
  expect([read('1.2.0', 'ld.so'), read('1.2.0', 'libnode.so.1')]).toEqual(['the loader', 'two']);
  // The agent and the one library.
  expect(server.requests.filter((path) => path.startsWith('/blobs/'))).toHaveLength(2);
});

test('no file of a release can be named so that it comes to lie elsewhere', async () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, '-x'), 'content');
  publish('1.1.0', { libraries: { amd64: folder } });
  const { updater, over } = begun();
  expect(await over).toBe('settled');
  expect(updater.problems.join()).toContain('libraries: must have names of files');
});

test('a file that the installed release has as well is not fetched again', async () => {
  publish('1.1.0');
  await begun().over;
  expect(server.requests.filter((path) => path.startsWith('/blobs/'))).toHaveLength(1);
  expect(statSync(join(program.release('1.1.0'), 'node')).ino).toBe(
    statSync(join(program.release('1.0.0'), 'node')).ino,
  );
});

test('a file of the installed release is used again while it runs', async () => {
  const node = join(program.release('1.0.0'), 'node');
  copyFileSync('/bin/sleep', node);
  const running = spawn(node, ['600']);
  onTestFinished(() => void running.kill('SIGKILL'));
  await once(running, 'spawn');
  publish('1.1.0', { nodeContent: readFileSync('/bin/sleep') });
  const { updater, over } = begun();
  expect(await over, updater.problems.join()).toBe('restarts');
});

test('the first confirmed report ends the trial, and older releases are removed', async () => {
  program = makeProgram({ '1.0.0': 'old', '0.9.0': 'older' });
  publish('1.1.0');
  await begun().over;
  const { updater } = begun();
  expect(updater.isReadyToUpgrade).toBe(false);
  expect(updater.progress).toEqual({ state: 'OnTrial', version: '1.1.0' });
  updater.confirm();
  expect(updater.progress).toEqual({ state: 'Idle' });
  expect(program.state).toEqual({ bad: {}, previous: '1.0.0', finished: 'a1' });
  expect(program.versions()).toEqual(['1.0.0', '1.1.0']);
  expect([updater.isReadyToUpgrade, updater.isReadyToRollback, updater.isFinished('a1')]).toEqual([true, true, true]);
});

test('a report of the former release confirms nothing', async () => {
  publish('1.1.0');
  const { updater, over } = begun();
  await over;
  updater.confirm();
  expect(program.state.trial).toBeDefined();
});

test('a rollback switches to the former release, on trial as well', async () => {
  program = makeProgram({ '1.1.0': 'new', '1.0.0': 'old' });
  program.save({ bad: {}, previous: '1.0.0' });
  expect(await begun({ versionCommand: 'rollback' }).over).toBe('restarts');
  expect(program.current).toBe('1.0.0');
  expect(program.state.trial).toMatchObject({ version: '1.0.0', from: '1.1.0' });
});

test('the next controller hears nothing of a failure at the last one, and its action of the same digest is carried out', async () => {
  const bad = { '1.2.0': { digest: 'd', reason: 'it ended' } };
  program.save({ bad, previous: '0.9.0', failure: { version: '1.1.0', reason: 'too early' }, finished: 'a1' });
  publish('1.1.0');
  const { updater, over } = begun();
  expect(updater.progress).toMatchObject({ state: 'Failed', version: '1.1.0' });
  updater.forget();
  expect([updater.progress, updater.problems, updater.isFinished('a1')]).toEqual([{ state: 'Idle' }, [], false]);
  expect(program.state).toEqual({ bad, previous: '0.9.0' });
  updater.begin('a1');
  expect(await over).toBe('restarts');
});

test('a trial that another controller requested ends without a word of it, whether it fails or is confirmed', async () => {
  publish('1.1.0');
  const { updater, over } = begun();
  await over;
  updater.forget();
  const before = program.state;
  expect(before.trial).toMatchObject({ version: '1.1.0' });
  program.save(endLateTrial(before));
  for (const step of decideStart(program.state, program.current, program.versions()).steps)
    'save' in step ? program.save(step.save) : program.switchTo(step.switchTo);
  expect(program.state).not.toHaveProperty('failure');
  expect(program.state).not.toHaveProperty('finished');
  program.save(before);
  begun({}, { version: '1.1.0' }).updater.confirm();
  expect(program.state).toMatchObject({ previous: '1.0.0' });
  expect(program.state).not.toHaveProperty('finished');
});

test('an action of a controller that is no longer the own one is not continued', async () => {
  publish('1.1.0');
  let requests = 0;
  server.fault = (_path, response) => Boolean(++requests && response.writeHead(502).end());
  // Between two attempts it waits until it is ended, so that each action makes one.
  const clock: Clock = { ...systemClock(), after: () => () => {} };
  const { updater } = begun({}, { clock });
  await expect.poll(() => updater.progress.state, { timeout: 20_000 }).toBe('Retrying');
  updater.forget();
  expect([updater.progress, updater.problems]).toEqual([{ state: 'Idle' }, []]);
  updater.begin('a2');
  await expect.poll(() => updater.progress.state, { timeout: 20_000 }).toBe('Retrying');
  expect(requests).toBe(2);
});

test.each([
  ['of an older launcher', {}],
  ['with the release that ran', { runs: '0.9.0' }],
])('a failure %s is over once a package has brought another release', (_, ran) => {
  program.save({ bad: {}, failure: { version: '1.0.0', reason: 'the disk is full', ...ran }, finished: 'a1' });
  const { updater } = begun();
  expect(updater.progress).toEqual({ state: 'Idle' });
  expect(updater.problems).toEqual([]);
  // A package may bring the former release back.
  expect(program.state).toEqual({ bad: {}, finished: 'a1' });
});

test.each([
  ['of an older launcher', {}],
  ['with the release that ran', { runs: '1.0.0' }],
])('a failure %s stays while the same release runs, also after a restart', (_, ran) => {
  program.save({ bad: {}, failure: { version: '1.1.0', reason: 'the disk is full', ...ran }, finished: 'a1' });
  expect(begun().updater.progress).toMatchObject({ state: 'Failed', version: '1.1.0' });
});

test.each([
  ['the release that runs is asked for', async () => wish({ semver: 'v1.0.0' })],
  ['nothing is asked for any more', async () => undefined],
])('a failure is over once %s', async (_, requested) => {
  program.save({ bad: {}, failure: { version: '1.1.0', reason: 'the disk is full', runs: '1.0.0' }, finished: 'a0' });
  const { updater, over } = begun({}, { keys: [], requested });
  expect(await over).toBe('settled');
  expect([updater.progress.state, updater.problems]).toEqual(['Idle', []]);
  expect(program.state).toEqual({ bad: {}, finished: 'a1' });
});

test('a machine without a release key says so before anybody asks for a release', async () => {
  const { updater, over } = begun({}, { keys: [], requested: async () => undefined });
  await over;
  expect(updater.isReadyToUpgrade).toBe(false);
  expect(updater.progress).toEqual({ state: 'Idle', message: expect.stringMatching(/no release key.*releaseKeyFile/) });
});

test('a server that asks for patience is asked again after at least that time, however often it is busy', async () => {
  publish('1.1.0');
  let busy = 9;
  server.fault = (path, response) => {
    if (!path.startsWith('/blobs/') || busy-- <= 0) return false;
    response.writeHead(503, { 'retry-after': '10' }).end();
    return true;
  };
  const pauses: number[] = [];
  const clock = systemClock();
  const after: Clock['after'] = (ms, callback) => {
    pauses.push(ms);
    return clock.after(0, callback);
  };
  expect(await begun({}, { clock: { ...clock, after } }).over).toBe('restarts');
  expect(pauses).toHaveLength(9);
  expect(Math.min(...pauses)).toBeGreaterThanOrEqual(10_000);
  expect(Math.max(...pauses)).toBeLessThanOrEqual(20_000);
  expect(new Set(pauses).size).toBeGreaterThan(1);
});

test('what belongs to the controller goes to its address alone, also where it redirects elsewhere', async () => {
  publish('1.1.0');
  const seen = new Map<string, (string | undefined)[]>();
  const see = (name: string, request: IncomingMessage) =>
    seen.set(name, [...(seen.get(name) ?? []), request.headers.authorization]);
  server.observe = (request) => see('elsewhere', request);
  const controller = await new FileServer(server.folder).listen();
  controller.observe = (request) => see('controller', request);
  controller.fault = (path, response) => Boolean(response.writeHead(307, { location: `${server.url}${path}` }).end());
  const accessTo: UpdaterDependencies['accessTo'] = ({ origin }) =>
    origin === controller.url ? { authorization: 'Bearer own' } : {};
  expect(await begun({ releasesUrl: controller.url }, { accessTo }).over).toBe('restarts');
  expect(new Set(seen.get('controller'))).toEqual(new Set(['Bearer own']));
  expect(new Set(seen.get('elsewhere'))).toEqual(new Set([undefined]));
});

test('releases come from a controller whose certificate is of an own authority, with that authority alone', async () => {
  publish('1.1.0');
  const { cert, key: tlsKey, ca } = makeCertificate(temporaryFolder(), ['127.0.0.1']);
  const secure = createServer({ cert: readFileSync(cert), key: readFileSync(tlsKey) }, (request, response) => {
    void fetch(`${server.url}${request.url}`).then(async (reply) => {
      response.writeHead(reply.status, { 'content-length': reply.headers.get('content-length') ?? '0' });
      response.end(Buffer.from(await reply.arrayBuffer()));
    });
  });
  const releasesUrl = `https://127.0.0.1:${await listenForTest(secure)}`;
  const { updater, over } = begun({ releasesUrl });
  expect(await over).toBe('settled');
  expect(updater.problems.join()).toMatch(/certificate/);
  program.save({ bad: {} });
  expect(await begun({ releasesUrl }, { accessTo: () => ({ ca }) }).over).toBe('restarts');
});

const refusals: Record<string, { arrange?: () => void; requested?: Partial<VersionReply>; says: RegExp }> = {
  'another key signed it': {
    arrange: () => publish('1.1.0', { key: makeReleaseKey().privateKey }),
    says: /not by a release key of this machine/,
  },
  'its manifest was changed after it was signed': {
    arrange: () => {
      publish('1.1.0');
      const path = join(server.folder, 'latest/manifest.json');
      writeFileSync(path, readFileSync(path, 'utf8').replace('0.1.0', '0.0.1'));
    },
    says: /not by a release key/,
  },
  'a file has another content': {
    arrange: () => {
      publish('1.1.0');
      server.fault = (path, response, content) =>
        path.startsWith('/blobs/') && Boolean(response.end(Buffer.alloc(content.length, 'x')));
    },
    says: /its file agent does not have the checksum [0-9a-f]+ that was announced/,
  },
  'a file does not end': {
    arrange: () => {
      publish('1.1.0');
      server.fault = (path, response, content) =>
        path.startsWith('/blobs/') && Boolean(response.end(Buffer.alloc(content.length + 1, 'x')));
    },
    says: /its file agent has \d+ bytes, and \d+ were announced/,
  },
  'it is not newer': { arrange: () => publish('1.0.0'), says: /not newer than 1.0.0.*rollback/ },
  'it needs a newer agent first': {
    arrange: () => publish('3.0.0', { minimumVersion: '2.0.0' }),
    says: /can follow on 2.0.0 or newer, and 1.0.0 is installed/,
  },
  'it has no files for the machine': {
    arrange: () => publish('1.1.0', { node: {} }),
    says: /no files for the architecture amd64/,
  },
  'there is no such release': { requested: { semver: '9.9.9' }, says: /there is none at 127/ },
  'the text is no version': { requested: { semver: '../1' }, says: /not a version such as 1.2.3/ },
  'the manifest of a version is that of another': {
    arrange: () => {
      publish('1.1.0');
      publish('1.2.0');
      for (const name of ['manifest.json', 'manifest.json.sig'])
        writeFileSync(join(server.folder, '1.2.0', name), readFileSync(join(server.folder, '1.1.0', name)));
    },
    requested: { semver: '1.2.0' },
    says: /its manifest is that of 1.1.0/,
  },
  'the controller names no place': { requested: { releasesUrl: undefined }, says: /names no place of releases/ },
  'there is nothing to go back to': { requested: { versionCommand: 'rollback' }, says: /no former release/ },
};
test.each(Object.entries(refusals))('a version action fails when %s, and nothing is switched', async (_, row) => {
  row.arrange?.();
  const { updater, over } = begun(row.requested);
  expect(await over).toBe('settled');
  expect(updater.problems).toEqual([expect.stringMatching(row.says)]);
  expect(updater.progress).toMatchObject({ state: 'Failed', message: expect.stringMatching(row.says) });
  expect(updater.problems[0]).toMatch(/^update: .* failed, 1.0.0 runs: /);
  expect([program.current, program.versions()]).toEqual(['1.0.0', ['1.0.0']]);
  expect(updater.isReadyToUpgrade).toBe(true);
});

test('a machine without a release key is not ready to upgrade, and refuses to', async () => {
  publish('1.1.0');
  const { updater, over } = begun({}, { keys: [] });
  expect(await over).toBe('settled');
  expect(updater.isReadyToUpgrade).toBe(false);
  expect(updater.problems[0]).toMatch(/no release key \(setting releaseKeyFile\)/);
});

test('a release for which the disk has no room is refused before it is fetched', async () => {
  publish('1.1.0');
  Object.defineProperty(program, 'freeBytes', { value: 1024 ** 2 });
  const { updater, over } = begun();
  expect(await over).toBe('settled');
  expect(updater.problems[0]).toMatch(/needs 257 MiB free, and there are 1/);
});

/** Ends the trial as the launcher does, and forgets the action: the next one is a new one. */
function endTrial(ended: (trial: Trial) => Trial) {
  program.save({ ...program.state, trial: ended(program.state.trial as Trial) });
  for (const step of decideStart(program.state, program.current, program.versions()).steps)
    'save' in step ? program.save(step.save) : program.switchTo(step.switchTo);
  expect(program.current).toBe('1.0.0');
  const { finished, ...rest } = program.state;
  program.save(rest);
}

test('a release that took too long is tried again by the next action', async () => {
  publish('1.1.0');
  await begun().over;
  endTrial((trial) => endLateTrial({ bad: {}, trial }).trial as Trial);
  const again = begun();
  expect(again.updater.problems).toEqual([expect.stringMatching(/^update: 1.1.0 failed, 1.0.0 runs: no report/)]);
  expect(await again.over).toBe('restarts');
  expect(program.state).toMatchObject({ bad: {}, trial: { version: '1.1.0', starts: 0 } });
  expect(again.updater.problems).toEqual([]);
});

test('an agent that runs although another release is to be on trial says why', async () => {
  publish('1.1.0');
  await begun().over;
  const { updater } = begun({}, { version: '1.0.0' });
  expect(updater.problems[0]).toBe(
    `update: 1.1.0 is not on trial, since ${program.directory} could not be written; the next start of the agent continues`,
  );
  updater.confirm();
  expect(program.state.trial).toMatchObject({ version: '1.1.0', starts: 0 });
});

test('a release that ended on trial is not tried again, but one that was built again is', async () => {
  publish('1.1.0');
  await begun().over;
  endTrial((trial) => ({ ...trial, failed: 'it crashed' }));
  const again = begun();
  expect(await again.over).toBe('settled');
  expect(again.updater.problems[0]).toMatch(/failed here before and is not tried again: it crashed/);
  const { finished: _, ...state } = program.state;
  program.save(state);
  publish('1.1.0', { content: 'agent 1.1.0, mended' });
  expect(await begun().over).toBe('restarts');
});

describe('a download', () => {
  const content = 'x'.repeat(300_000);

  test('that the network cuts continues where it ended', async () => {
    publish('1.1.0', { content });
    let cuts = 2;
    server.fault = (path, response, whole) => {
      if (!path.startsWith('/blobs/') || cuts-- <= 0) return false;
      if (cuts === 0) return Boolean(response.writeHead(503).end());
      response.writeHead(200, { 'content-length': whole.length });
      response.write(whole.subarray(0, 200_000));
      const arrived = () => statSync(join(program.releases, '.download', basename(path))).size;
      void expect
        .poll(arrived, { timeout: 10_000 })
        .toBe(200_000)
        .then(() => response.destroy());
      return true;
    };
    expect(await begun().over).toBe('restarts');
    expect(server.requests.filter((path) => path.endsWith(' 200000'))).toHaveLength(2);
    expect(readFileSync(join(program.release('1.1.0'), 'agent'), 'utf8')).toBe(content);
  });

  test('starts over at a server without ranges', async () => {
    publish('1.1.0', { content });
    let cut = true;
    server.fault = (path, response, whole) => {
      if (!path.startsWith('/blobs/')) return false;
      response.writeHead(200, { 'content-length': whole.length });
      if (cut) response.write(whole.subarray(0, 200_000), () => response.destroy());
      else response.end(whole);
      cut = false;
      return true;
    };
    expect(await begun().over).toBe('restarts');
    expect(readFileSync(join(program.release('1.1.0'), 'agent'), 'utf8')).toBe(content);
  });

  test('that never gets anywhere is given up', async () => {
    publish('1.1.0');
    server.fault = (_path, response) => Boolean(response.writeHead(503).end());
    const { updater, over } = begun();
    expect(await over).toBe('settled');
    expect(updater.problems[0]).toMatch(/answered 503/);
  });
});

test('a newer action takes the place of the one under way', async () => {
  publish('1.1.0');
  publish('1.2.0');
  let wanted = '1.1.0';
  server.fault = (path) => path === '/1.1.0/manifest.json';
  const { updater, over } = begun({}, { requested: async () => wish({ semver: wanted }) });
  await expect.poll(() => server.requests).toContain('/1.1.0/manifest.json');
  wanted = '1.2.0';
  updater.begin('a2');
  expect(await over).toBe('restarts');
  expect(program.state.trial).toMatchObject({ version: '1.2.0', action: 'a2' });
});

test('an action that the controller no longer requests is over', async () => {
  const { updater, over } = begun(undefined, { requested: async () => undefined });
  expect(await over).toBe('settled');
  expect(updater.problems).toEqual([]);
});

test('an action that is replaced, or withdrawn, while it is tried again leaves no trouble', async () => {
  publish('1.1.0');
  let wanted: VersionReply | undefined = wish();
  let tryAgain = () => {};
  const after: Clock['after'] = (_ms, callback) => {
    tryAgain = callback;
    return () => {};
  };
  server.fault = (_path, response) => Boolean(response.writeHead(502).end());
  const { updater } = begun({}, { clock: { ...systemClock(), after }, requested: async () => wanted });
  const retries = () => expect.poll(() => updater.progress.state, { timeout: 20_000 }).toBe('Retrying');
  await retries();
  updater.begin('a2');
  expect([updater.progress, updater.problems]).toEqual([{ state: 'Downloading' }, []]);
  await retries();
  wanted = undefined;
  tryAgain();
  await expect.poll(() => updater.isFinished('a2'), { timeout: 20_000 }).toBe(true);
  await expect.poll(() => updater.progress, { timeout: 20_000 }).toEqual({ state: 'Idle' });
  expect(updater.problems).toEqual([]);
});

test('a server that is busy for long ends no action: a fleet that upgrades takes turns', async () => {
  publish('1.1.0');
  let busy = 150;
  server.fault = (_path, response) => busy-- > 0 && Boolean(response.writeHead(503, { 'retry-after': '1' }).end());
  expect(await begun().over).toBe('restarts');
  expect(busy).toBeLessThan(0);
});

/** With SKERRY_NIGHTLY every moment, else every fifth. */
const STRIDE = process.env.SKERRY_NIGHTLY ? 1 : 5;
/** Twenty processes one after another, a hundred of them nightly: a machine under load takes seconds for each. */
const PATIENCE_MS = process.env.SKERRY_NIGHTLY ? 900_000 : 240_000;

describe('a process that is killed before a change of the disk', () => {
  const folder = temporaryFolder();
  const bundle = join(folder, 'update.mjs');
  const keyFile = join(folder, 'release.pem');
  beforeAll(async () => {
    writeFileSync(keyFile, key.publicKey);
    // Some packages are CommonJS and call require for Node's own modules.
    const js = "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);";
    const options = { bundle: true, platform: 'node', format: 'esm', target: 'node24', banner: { js } } as const;
    await build({ entryPoints: [join(import.meta.dirname, '_update-process.ts')], outfile: bundle, ...options });
  });

  /** A process that carries out the action, until the new release would start or has confirmed; see _update-process.ts. */
  function run(home: Program, until: 'restart' | 'confirm', dieAt = 0) {
    const child = spawn(process.execPath, [bundle, home.directory, keyFile, server.url, until], {
      env: { ...process.env, SKERRY_DIE_AT: String(dieAt) },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    return new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) =>
      child.once('exit', (code, signal) => resolve({ code, signal })),
    );
  }
  const started = (home: Program) => decideStart(home.state, home.current, home.versions()).version ?? '';

  test(
    'during an update leaves a release that runs, and the next one completes the update',
    async () => {
      publish('1.1.0', { nodeContent: `${NODE_SCRIPT}# another one\n` });
      let dieAt = 1;
      for (; ; dieAt += STRIDE) {
        const home = makeProgram({ '1.0.0': 'old' });
        const { signal } = await run(home, 'restart', dieAt);
        const version = started(home);
        const agent = readFileSync(join(home.release(version), 'agent'), 'utf8');
        expect(agent).toBe(version === '1.0.0' ? 'old' : 'agent 1.1.0');
        if (signal === null) break;
        expect((await run(home, 'confirm')).code).toBe(0);
        expect(home.current).toBe('1.1.0');
        expect(home.state).toMatchObject({ previous: '1.0.0', finished: 'a1' });
        expect(home.state.trial).toBeUndefined();
      }
      expect(dieAt).toBeGreaterThan(25);
    },
    PATIENCE_MS,
  );

  test(
    'while it confirms leaves the trial or the confirmed release',
    async () => {
      publish('1.1.0');
      const onTrial = makeProgram({ '1.0.0': 'old', '0.9.0': 'older' });
      expect((await run(onTrial, 'restart')).code).toBe(0);
      for (let dieAt = 1; ; dieAt += STRIDE) {
        const home = new Program(temporaryFolder());
        cpSync(onTrial.directory, home.directory, { recursive: true, verbatimSymlinks: true });
        const { signal } = await run(home, 'confirm', dieAt);
        expect(started(home)).toBe('1.1.0');
        if (signal === null) break;
        if (home.state.trial) expect((await run(home, 'confirm')).code).toBe(0);
        expect(home.state).toMatchObject({ previous: '1.0.0', finished: 'a1' });
      }
    },
    PATIENCE_MS,
  );
});
