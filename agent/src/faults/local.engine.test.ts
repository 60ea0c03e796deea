import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { EngineObserver } from '../_observer.ts';
import { pushVersions } from '../_web.ts';
import { TestHub } from '../content/artifacts/_hub.ts';
import type { Container } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { manifestOf } from '../local/_manifest.ts';

/** Microservices that are deployed on a machine without a controller, on an engine. */

const on = firstEngine();
const engineUrl = on.url;
const registry = new URL(inject('registryUrl')).host;
const image = (tag: string) => `${registry}/own/sample:${tag}`;
const FAILPOINTS = join(import.meta.dirname, '_failpoints.ts');
const LONG = Boolean(process.env.SKERRY_NIGHTLY);
const OTHER_RUNTIME = on.kind === 'embedded' ? 'crun' : 'io.containerd.runc.v2';

const folder = mkdtempSync(join(tmpdir(), 'skerry-own-'));
beforeAll(() => pushVersions(inject('registryUrl'), 'own/sample', '1', '2'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let home: Home;
let port: number;
beforeEach(async () => {
  home = new Home({ engineUrl });
  port = await freePort();
});
afterEach(() => home.remove());

function manifest(tag: string): string {
  const file = join(folder, `${tag}.yaml`);
  const ports = [{ internal: 8080, external: port }];
  const volumes = [{ hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' }];
  writeFileSync(file, manifestOf('web', image(tag), { ports, volumes }));
  return file;
}

const deploy = (tag: string) => home.cli('deploy', '-f', manifest(tag));
const greeting = async () => (await fetch(`http://127.0.0.1:${port}/`)).text();
const only = async (): Promise<Container> => {
  const containers = await home.containers();
  expect(containers).toHaveLength(1);
  return containers[0] as Container;
};

test('a microservice is deployed, updated, stopped, supervised by the next agent, and removed', async () => {
  await home.up();
  expect(await deploy('1')).toMatchObject({ code: 0, out: 'web: deployed\n' });
  expect(await greeting()).toContain('1');
  const first = await only();
  expect(await deploy('1')).toMatchObject({ code: 0 });
  expect((await only()).id).toBe(first.id);
  expect(await deploy('2')).toMatchObject({ code: 0 });
  expect(await greeting()).toContain('2');
  const second = await only();
  expect(second.id).not.toBe(first.id);

  await home.end();
  await upWithoutDatabase('RUNNING');
  expect(await home.cli('ms', 'stop', 'skerry-agent.web')).toMatchObject({ code: 0 });
  await home.end('SIGKILL');
  await upWithoutDatabase('STOPPED');
  expect(await only()).toMatchObject({ id: second.id, state: 'exited' });
  expect(await home.cli('ms', 'start', 'skerry-agent.web')).toMatchObject({ code: 0 });
  expect(await only()).toMatchObject({ id: second.id, state: 'running' });

  expect(await home.cli('ms', 'rm', 'skerry-agent.web')).toMatchObject({ code: 0 });
  expect(await home.containers()).toEqual([]);
  expect((await home.cli('ms', 'ls')).out).toBe('No microservices on this node\n');
});

/** Starts the agent again, and waits until it shows the microservice in a state. */
async function upWithoutDatabase(state: string): Promise<void> {
  for (const part of ['', '-wal', '-shm']) rmSync(join(home.disk, `agent.db${part}`), { force: true });
  await home.up();
  await until(state, async () => (await home.cli('ms', 'ls')).out.includes(state), 60_000);
}

/** Starts an agent that can be killed at a moment, and waits until it has looked at the engine: a request before that is refused. */
async function upWithFailpoints(): Promise<void> {
  await home.up({ imports: [FAILPOINTS] });
  await until(
    'a look at the engine',
    async () => {
      const { daemonStatus, runtime } = JSON.parse((await home.cli('status', '-o', 'json')).out);
      return daemonStatus !== 'STARTING' && runtime.engineReady;
    },
    60_000,
  );
}

interface Change {
  act(): Promise<{ code: number; out: string; err: string }>;
  /** Makes the state before. */
  prepare(): Promise<unknown>;
  /** Waits for the state after. */
  settle(): Promise<unknown>;
  /** what a second attempt answers where the first was complete, besides 0 */
  again?: readonly number[];
}

/**
 * Makes a change with an agent that is killed at one moment after the other, and started and asked again: every moment by night; by day the
 * moments of the row, and every sixth after them.
 */
async function killedAtEach({ act, prepare, settle, again = [] }: Change): Promise<void> {
  let deaths = 0;
  await upWithFailpoints();
  const arm = (at: number) =>
    new Promise<void>((resolve) => {
      home.process?.once('message', () => resolve());
      home.process?.send({ arm: at, of: 'all' });
    });
  for (let at = 1; ; at += LONG || at < 2 ? 1 : 6) {
    await prepare();
    const uuids = (await home.containers()).map(({ uuid }) => uuid);
    const observer = new EngineObserver(on, uuids);
    await observer.read();
    await arm(at);
    const { code, out, err } = await act();
    const isDead = () => home.process?.signalCode === 'SIGKILL';
    // The command may notice the end of the agent before this process does.
    if (code !== 0) await until(`the end of the agent at moment ${at}: ${out}${err}`, isDead);
    const wasKilled = isDead();
    if (!wasKilled) expect(code).toBe(0);
    else {
      deaths++;
      await upWithFailpoints();
      const asked = await act();
      expect([0, ...again], `moment ${at}: ${asked.out}${asked.err}`).toContain(asked.code);
    }
    await settle();
    expect((await observer.read()).doubles).toEqual([]);
    observer.close();
    if (!wasKilled) break;
    await arm(0);
  }
  expect(deaths).toBeGreaterThanOrEqual(2);
}

const NOT_FOUND = 4;
const LONGEST = { timeout: 900_000 };

interface Case {
  /** the tag that runs before; undefined: nothing */
  from: string | undefined;
  act: Change['act'];
  /** the tag that runs afterwards; undefined: nothing */
  to: string | undefined;
  /** by night only */
  isLong?: true;
}

const CASES: Record<string, Case> = {
  'the first apply': { from: undefined, act: () => deploy('1'), to: '1', isLong: true },
  'an apply of another manifest': { from: '1', act: () => deploy('2'), to: '2' },
  'a removal': { from: '1', act: () => home.cli('ms', 'rm', 'skerry-agent.web'), to: undefined, isLong: true },
};

/** Has what a command prints, and fails with that when it does not succeed. */
async function said(...words: string[]): Promise<string> {
  const { code, out, err } = await home.cli(...words);
  expect(code, `${words.join(' ')}: ${out}${err}`).toBe(0);
  return out;
}

function file(name: string, content: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify({ apiVersion: 'agent.skerry.dev/v1', ...content }));
  return path;
}

/** Something that is defined on a machine by a manifest, in two versions. */
interface Defined {
  manifest(version: 1 | 2): string;
  list: readonly string[];
  remove: readonly string[];
  /** which version a list shows; undefined: none */
  shows(list: string): number | undefined;
  /** this engine has no second version */
  hasOneVersion?: boolean;
}

let hub: TestHub;
beforeAll(async () => {
  hub = await TestHub.start();
  for (const kind of ['models', 'datasets'])
    for (const version of [1, 2]) hub.commit(`${kind}/team/tiny`, { 'a.txt': `${version}` }, `v${version}`);
});
afterAll(() => hub?.[Symbol.asyncDispose]());

const artifact = (kind: 'Model' | 'Knowledge', command: string): Defined => ({
  manifest: (version) => {
    const spec = { repo: 'team/tiny', registry: 4, revision: `v${version}` };
    return file(`${kind}-${version}.yaml`, { kind, metadata: { name: 'tiny' }, spec });
  },
  list: [command, 'ls'],
  remove: [command, 'rm', 'tiny'],
  shows: (list) => (list.includes('tiny') ? (list.includes('v2') ? 2 : 1) : undefined),
});

const DEFINED: Record<string, Defined> = {
  'a registry': {
    manifest: (version) =>
      file(`registry-${version}.yaml`, {
        kind: 'Registry',
        spec: { url: 'registry.example', private: true, username: `user-${version}`, password: 'canary' },
      }),
    list: ['registry', 'ls'],
    remove: ['registry', 'rm', '5'],
    shows: (list) => (list.includes('registry.example') ? (list.includes('user-2') ? 2 : 1) : undefined),
  },
  'a runtime class': {
    // Both are one runtime.
    manifest: (version) =>
      file(`class-${version}.yaml`, {
        kind: 'RuntimeClass',
        metadata: { name: 'fast' },
        handler: version === 1 ? 'runc' : OTHER_RUNTIME,
      }),
    list: ['runtimeclass', 'ls'],
    remove: ['runtimeclass', 'rm', 'fast'],
    shows: (list) => (list.includes('fast') ? (list.includes(OTHER_RUNTIME) ? 2 : 1) : undefined),
    // Podman knows its runtimes by one name each, and the machine has one.
    hasOneVersion: on.kind === 'podman',
  },
  'a model': artifact('Model', 'model'),
  'an item of knowledge': artifact('Knowledge', 'knowledge'),
};

describe('an agent that is killed at any write of', () => {
  for (const [name, { from, act, to, isLong }] of Object.entries(CASES))
    test.skipIf(isLong && !LONG)(
      `${name} reaches its end once it is asked again, and two containers never run`,
      LONGEST,
      () =>
        killedAtEach({
          act,
          again: to === undefined ? [NOT_FOUND] : [],
          prepare: async () => {
            if (from) expect((await deploy(from)).code).toBe(0);
            else if ((await home.containers()).length > 0) await said('ms', 'rm', 'skerry-agent.web');
          },
          settle: async () => {
            const count = async () => (await home.containers()).length;
            await until('the containers', async () => (await count()) === (to ? 1 : 0), 60_000);
            if (to) expect(await greeting()).toContain(to);
          },
        }),
    );

  describe.runIf(LONG).each(Object.entries(DEFINED))(
    '%s',
    (_, { manifest: manifestFor, list, remove, shows, hasOneVersion }) => {
      const shown = async () => shows(await said(...list));
      const define = (version: 1 | 2) => said('deploy', '-f', manifestFor(version));
      const hubFile = () =>
        file('hub.yaml', { kind: 'Registry', spec: { id: 4, type: 'hub', url: hub.url, private: false } });
      const changes: Record<string, Omit<Change, 'settle'> & { to: 1 | 2 | undefined }> = {
        'by the first apply': {
          act: () => home.cli('deploy', '-f', manifestFor(1)),
          prepare: async () => (await shown()) && said(...remove),
          to: 1,
        },
        'by another apply': { act: () => home.cli('deploy', '-f', manifestFor(2)), prepare: () => define(1), to: 2 },
        'by a removal': { act: () => home.cli(...remove), prepare: () => define(1), to: undefined, again: [NOT_FOUND] },
      };
      const possible = Object.entries(changes).filter(([, { to }]) => !(hasOneVersion && to === 2));
      test.each(possible)('%s reaches its end once it is asked again', LONGEST, (_, { to, ...change }) =>
        killedAtEach({
          ...change,
          prepare: async () => {
            await said('deploy', '-f', hubFile());
            await change.prepare();
          },
          settle: async () => expect(await shown()).toBe(to),
        }),
      );
    },
  );

  test.runIf(LONG)(
    'a prune reaches its end once it is asked again, and keeps the wanted image and model',
    LONGEST,
    () =>
      killedAtEach({
        act: () => home.cli('prune', 'all'),
        prepare: async () => {
          await said(
            'deploy',
            '-f',
            file('hub.yaml', { kind: 'Registry', spec: { id: 4, type: 'hub', url: hub.url, private: false } }),
          );
          for (const tag of ['1', '2'] as const) expect((await deploy(tag)).code).toBe(0);
          await said('deploy', '-f', DEFINED['a model']?.manifest(1) ?? '');
          // The former container uses its image until it is removed.
          await until('one container', async () => (await home.containers()).length === 1, 60_000);
        },
        settle: async () => {
          expect(await greeting()).toContain('2');
          expect(await said('image', 'ls')).toMatch(/own\/sample +2 /);
          expect(await said('image', 'ls')).not.toMatch(/own\/sample +1 /);
          expect(await said('model', 'ls')).toContain('Ready');
        },
      }),
  );
});
