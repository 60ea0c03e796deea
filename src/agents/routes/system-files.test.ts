import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { changed, storedNode } from '../../../testing/stored.ts';
import { BOUNDS } from '../../api/bounds.ts';
import { desiredState } from '../../desired/rules/desired.ts';
import type { SystemFileSet } from '../../rules/system-files.ts';
import { digestOf } from '../../wire/digest.ts';
import { knownFolders } from '../../wire/known-folders.ts';
import { SYSTEM_FILES_ASKED, type SystemFileSetView } from '../../wire/system-files.ts';
import { fill, keyOf, makeKey, type ReplicaOptions, startReplica, startWithNode } from '../_util.ts';

/** The files of the system from the desired state of a node to its agent. */

const base64 = (text: string) => Buffer.from(text).toString('base64');
const sha256 = (text: string) => hash('sha256', text);
const set = (name: string, texts: Record<string, string>): SystemFileSet => ({
  name,
  files: Object.fromEntries(Object.entries(texts).map(([path, text]) => [path, base64(text)])),
});

/** The desired state with these sets, by the name of the node. */
const desiredWith =
  (sets: Record<string, SystemFileSet[]>): typeof desiredState =>
  (inputs) => {
    const state = desiredState(inputs);
    const systemFiles = sets[inputs.node.metadata.name] ?? [];
    const digests = { ...state.digests, ...(systemFiles.length > 0 && { systemFiles: digestOf(systemFiles) }) };
    return { ...state, systemFiles, digests };
  };

/** A replica whose nodes have these sets, by the name of the node. */
async function startWithFiles(sets: Record<string, SystemFileSet[]>, options: ReplicaOptions = {}) {
  const setup = await startWithNode({ desiredState: desiredWith(sets), ...options });
  const other = storedNode('edge-2');
  const otherKey = makeKey();
  setup.replica.stores.nodes.set(other);
  setup.replica.stores.secrets.set(keyOf(other, otherKey));
  const read = (path: string) => setup.replica.as(setup.node, setup.key, 'GET', path);
  const ask = (...digests: string[]) => read(`/systemFiles/content?digests=${digests.join(',')}`);
  /** Computes the desired states again. */
  const recompute = () =>
    setup.replica.stores.nodes.set(
      changed(setup.node, ({ metadata }) => {
        metadata.annotations = { note: 'changed' };
      }),
    );
  return { ...setup, other, otherKey, read, ask, recompute };
}

const CERTIFICATES = set('certificates', {
  'tls.crt': 'certificate',
  'tls.key': 'private key',
  'ca/ca.crt': 'authority',
});

test('the list has path, digest and size of each file, and no content', async () => {
  const { read } = await startWithFiles({ 'edge-1': [CERTIFICATES] });
  const { body, text, headers } = await read('/systemFiles');
  expect(body).toEqual({
    systemFiles: [
      {
        name: 'certificates',
        files: [
          { path: 'tls.crt', digest: sha256('certificate'), size: 11 },
          { path: 'tls.key', digest: sha256('private key'), size: 11 },
          { path: 'ca/ca.crt', digest: sha256('authority'), size: 9 },
        ],
      },
    ],
  });
  for (const content of Object.values(CERTIFICATES.files)) expect(text).not.toContain(content);
  expect(headers.etag).toBe(`"systemFiles:${digestOf([CERTIFICATES])}"`);
});

test('the list leaves out folders that the agent names with their digest, and no others', async () => {
  const links = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`creds/${n}.creds`, `link ${n}`]));
  const { read } = await startWithFiles({ 'edge-1': [CERTIFICATES, set('bus-config', { start: '1', ...links })] });
  const whole = (await read('/systemFiles')).body.systemFiles as SystemFileSetView[];
  const known = knownFolders(whole);
  expect(known).toMatch(/^bus-config\/creds:[0-9a-f]{16}$/);
  const short = await read(`/systemFiles?known=${known}`);
  expect(short.body.systemFiles).toEqual([
    whole[0],
    { name: 'bus-config', files: whole[1]?.files.slice(0, 1), kept: ['creds'] },
  ]);
  expect(short.headers.etag).toBe((await read('/systemFiles')).headers.etag);
  for (const wrong of ['bus-config/creds:0123456789abcdef', known.replace('bus-config', 'certificates'), 'x', ',,:/'])
    expect((await read(`/systemFiles?known=${wrong}`)).body.systemFiles).toEqual(whole);
});

describe('content', () => {
  test('comes for the digests that were asked for, and for no others', async () => {
    const { ask } = await startWithFiles({ 'edge-1': [CERTIFICATES, set('router', { 'router.json': '{}' })] });
    const { status, body } = await ask(sha256('private key'), sha256('{}'), sha256('nobody has it'));
    expect(status).toBe(200);
    expect(body).toEqual({
      contents: { [sha256('private key')]: base64('private key'), [sha256('{}')]: base64('{}') },
    });
  });

  test('is not sent to another node, which knows its digest', async () => {
    const { ask, replica, other, otherKey } = await startWithFiles({
      'edge-1': [CERTIFICATES],
      'edge-2': [set('certificates', { 'tls.key': 'key of edge-2' })],
    });
    expect((await ask(sha256('key of edge-2'))).body).toEqual({ contents: {} });
    const path = `/systemFiles/content?digests=${sha256('key of edge-2')},${sha256('private key')}`;
    const own = await replica.as(other, otherKey, 'GET', path);
    expect(own.body).toEqual({ contents: { [sha256('key of edge-2')]: base64('key of edge-2') } });
  });

  const refused: Record<string, [string, RegExp]> = {
    'without digests': ['', /^digests: SHA-256 digests of 64 hex digits in lower case are required.*; "" is none$/],
    'for a digest in capital letters': [`?digests=${'A'.repeat(64)}`, /"A{64}" is none/],
    'for a digest that is too short': [`?digests=${'a'.repeat(63)}`, /"a{63}" is none/],
    'for a path': ['?digests=..%2Ftls.key', /"\.\.\/tls\.key" is none/],
    'for a long text, which is cut': [`?digests=${'x'.repeat(4000)}`, /"x{80}" is none/],
    'for a list that ends with a comma': [`?digests=${'a'.repeat(64)},`, /"" is none/],
    'for more digests than one request may have': [
      `?digests=${Array(SYSTEM_FILES_ASKED + 1)
        .fill('a'.repeat(64))
        .join(',')}`,
      /at most 64; these are 65$/,
    ],
  };
  for (const [name, [query, message]] of Object.entries(refused))
    test(`is refused with 400 ${name}`, async () => {
      const { read } = await startWithFiles({ 'edge-1': [CERTIFICATES] });
      const { status, body } = await read(`/systemFiles/content${query}`);
      expect([status, body.code, body.retryable]).toEqual([400, 'VALIDATION_ERROR', false]);
      expect(body.message).toMatch(message);
    });

  test('as large as a node may have is sent for as many digests as one request may have', async () => {
    const size = Math.floor((BOUNDS.systemFileBytes / SYSTEM_FILES_ASKED / 4) * 3) - 3;
    const texts = Array.from({ length: SYSTEM_FILES_ASKED }, (_, n) => String(n).padEnd(size, '.'));
    const { ask } = await startWithFiles({
      'edge-1': [set('many', Object.fromEntries(texts.map((text, n) => [`file-${n}`, text])))],
    });
    const { status, body } = await ask(...texts.map(sha256));
    expect([status, Object.keys(body.contents).length]).toEqual([200, SYSTEM_FILES_ASKED]);
  });

  test('waits with 503 while there is no room for it', async () => {
    const sending = { all: { bytes: 64 * 1024, messages: 10 }, node: { bytes: 64 * 1024, messages: 4 } };
    const large = 'x'.repeat(60_000);
    const sets = { 'edge-1': [set('large', { file: large, small: 'y' })] };
    const { ask } = await startWithFiles(sets, { limits: { sending } });
    expect(await ask(sha256(large))).toMatchObject({ status: 503, body: { code: 'CONTROLLER_NOT_READY' } });
    expect((await ask(sha256('y'))).status).toBe(200);
  });
});

describe('the flag', () => {
  const due = async ({ read }: Awaited<ReturnType<typeof startWithFiles>>, have = '') =>
    (await read(`/changes?have=${have}`)).body;

  test('is raised for an agent that names the section, until the agent has the list', async () => {
    const setup = await startWithFiles({ 'edge-1': [CERTIFICATES] });
    const digest = digestOf([CERTIFICATES]);
    const body = await due(setup, 'systemFiles:0');
    expect(body.systemFiles).toBe(true);
    expect(body.due.split(',')).toContain(`systemFiles:${digest}`);
    expect((await due(setup, `systemFiles:${digest}`)).systemFiles).toBeUndefined();
  });

  test('is raised once more when the node is to have no files any more', async () => {
    const setup = await startWithFiles({});
    expect((await due(setup, 'systemFiles:abc1')).systemFiles).toBe(true);
    expect((await due(setup, 'systemFiles:0')).systemFiles).toBeUndefined();
    expect((await setup.read('/systemFiles')).body).toEqual({ systemFiles: [] });
  });

  test('is not raised for an agent of a former release, whose long poll waits on', async () => {
    const sets: Record<string, SystemFileSet[]> = { 'edge-1': [CERTIFICATES] };
    const setup = await startWithFiles(sets);
    const { replica, read, recompute, clock } = setup;
    const all = (await due(setup)).due as string;
    expect(all).not.toContain('systemFiles');
    let isAnswered = false;
    const answer = read(`/changes?wait=60&have=${all}`).finally(() => {
      isAnswered = true;
    });
    while (replica.agents.routes.longPolls === 0) await new Promise(setImmediate);
    expect(isAnswered).toBe(false);
    // A renewal ends the poll without a flag.
    sets['edge-1'] = [set('certificates', { 'tls.crt': 'another' })];
    recompute();
    await clock.advance(1, { timers: 1 });
    expect((await answer).body.systemFiles).toBeUndefined();
  });

  test('is never raised for a third-party agent, and a renewal makes it read nothing again', async () => {
    const sets: Record<string, SystemFileSet[]> = { 'edge-1': [CERTIFICATES] };
    const { replica, node, key, recompute, clock } = await startWithFiles(sets);
    const third = { thirdParty: true };
    const poll = async () => (await replica.as(node, key, 'GET', '/changes', third)).body;
    const first = await poll();
    expect(first.systemFiles).toBe(false);
    const acknowledge = (lastUpdated: string) =>
      replica.as(node, key, 'PATCH', '/changes', { ...third, body: { lastUpdated } });
    await acknowledge(first.lastUpdated);
    // The acknowledgement of what has just become due counts for a while only.
    await clock.advance(200_000, { timers: 0 });
    await acknowledge((await poll()).lastUpdated);
    const raised = async () => Object.values(await poll()).filter((value) => value === true);
    expect(await raised()).toEqual([]);
    sets['edge-1'] = [set('certificates', { 'tls.crt': 'another' })];
    recompute();
    expect(await raised()).toEqual([]);
    await clock.advance(30_000, { timers: 0 });
    expect(await raised()).toEqual([]);
  });

  test('takes no part in an acknowledgement of a third-party agent that reaches another replica after a renewal', async () => {
    const { replica, node, key, clock } = await startWithFiles({ 'edge-1': [CERTIFICATES] });
    const renewed = { 'edge-1': [set('certificates', { 'tls.crt': 'another' })] };
    await using other = await startReplica({ clock, desiredState: desiredWith(renewed) });
    fill(other.stores, {
      nodes: [...replica.stores.nodes.list()],
      applications: [...replica.stores.applications.list()],
      secrets: [...replica.stores.secrets.list()],
    });
    await clock.advance(1_000, { timers: 0 });
    const third = { thirdParty: true };
    const { lastUpdated } = (await replica.as(node, key, 'GET', '/changes', third)).body;
    await other.as(node, key, 'PATCH', '/changes', { ...third, body: { lastUpdated } });
    const { body } = await other.as(node, key, 'GET', '/changes', third);
    expect([body.microserviceList, body.systemFiles]).toEqual([false, false]);
  });
});
