import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { callEngine } from '../../../hack/engine-api.ts';
import { pushImage, saveImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { pushVersions } from '../_web.ts';
import { TestHub } from '../content/artifacts/_hub.ts';
import {
  type AnyEngine,
  type RegistryProxy,
  startAnyEngine,
  startRegistryProxy,
} from '../content/registries/_registries.ts';
import { until } from '../engines/_contract.ts';
import { manifestOf } from '../local/_manifest.ts';

/**
 * The engine is killed while it carries out what a person asks of a machine without a controller. Whatever the answer was, nothing that is
 * wanted is lost, and the wish comes true once the engine is back: by itself where the answer was yes, else when it is asked again. By day
 * an engine dies in one row of the table; by night in every row.
 */

const LONG = Boolean(process.env.SKERRY_NIGHTLY);
const HELD_CALL = join(import.meta.dirname, '_held-call.ts');
const KEPT = 'what a volume has';
const NOT_FOUND = 4;

type Kind = 'docker' | 'podman' | 'embedded';
type Answer = Awaited<ReturnType<Home['cli']>>;
type When = 'before' | 'during' | 'after';
/** at a call of the engine, at a layer that the registry sends, or at a file that the hub sends */
type Moment = `${When} ${string}` | 'at a layer' | 'at a file';

/** A machine with an engine that can be killed, and the microservice `keep` that nothing may harm. */
class Killable implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'skerry-engine-killed-'));
  readonly home: Home;
  readonly port: number;
  readonly hub: TestHub;
  readonly #engine: AnyEngine;
  readonly #proxy: RegistryProxy;
  #serial = 0;
  /** an image that nothing on this machine has */
  fresh = '';

  private constructor(engine: AnyEngine, proxy: RegistryProxy, hub: TestHub, port: number) {
    this.home = new Home({ engineUrl: engine.url });
    this.port = port;
    this.hub = hub;
    this.#engine = engine;
    this.#proxy = proxy;
  }

  static async start(kind: Kind): Promise<Killable> {
    const proxy = await startRegistryProxy('127.0.0.1', { url: inject('registryUrl') });
    const engine = await startAnyEngine(kind, { registry: proxy.host });
    const machine = new Killable(engine, proxy, await TestHub.start(), await freePort());
    await machine.home.up({ imports: [HELD_CALL] });
    await machine.ready();
    await machine.deploy('keep', { image: 'keep:1', volume: true });
    writeFileSync(join(await machine.volumeOf('keep'), 'file'), KEPT);
    const spec = { url: machine.hub.url, id: 4, type: 'hub', private: false };
    await machine.said('deploy', '-f', machine.file({ kind: 'Registry', spec }));
    return machine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.home.remove();
    for (const part of [this.#engine, this.#proxy, this.hub]) await part[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }

  image = (name: string) => `${this.#proxy.host}/engine-killed/${name}`;

  file(content: object): string {
    const path = join(this.folder, `${++this.#serial}.yaml`);
    writeFileSync(path, JSON.stringify({ apiVersion: 'agent.skerry.dev/v1', ...content }));
    return path;
  }

  cli = (...words: string[]) => this.home.cli(...words);

  /** Has what a command prints, and fails with that when it does not succeed. */
  async said(...words: string[]): Promise<string> {
    const { code, out, err } = await this.cli(...words);
    expect(code, `${words.join(' ')}: ${out}${err}`).toBe(0);
    return out;
  }

  manifest(name: string, { image, volume = false, port }: { image: string; volume?: boolean; port?: number }): string {
    const path = join(this.folder, `${++this.#serial}.yaml`);
    const volumes = [{ hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' }];
    const ports = [{ internal: 8080, external: port }];
    writeFileSync(path, manifestOf(name, this.image(image), { ...(volume && { volumes }), ...(port && { ports }) }));
    return path;
  }

  deploy = (name: string, options: { image: string; volume?: boolean; port?: number }) =>
    this.said('deploy', '-f', this.manifest(name, options));
  web = (version: 1 | 2) => this.manifest('web', { image: `web:${version}`, port: this.port });

  /** The folder of the volume of a microservice of this machine, present or removed. */
  async volumeOf(name: string): Promise<string> {
    const row = (await this.claims()).find(({ consumers }) => consumers.some((each) => each.name === name));
    if (!row) throw new Error(`${name} has no volume`);
    return row.hostPath;
  }

  async claims() {
    const { volumes } = JSON.parse(await this.said('volume', 'ls', '-o', 'json'));
    return volumes as { uuid: string; hostPath: string; desired: boolean; consumers: { name: string }[] }[];
  }

  /** Pushes an image that no engine has. */
  async pushFresh(): Promise<void> {
    const name = `fresh-${++this.#serial}`;
    const image = await sampleImage({
      env: { GREETING: `${this.folder}${name}` },
      files: [{ path: '/ballast', content: `${this.folder}${name}` }],
    });
    await pushImage(inject('registryUrl'), `engine-killed/${name}`, '1', image);
    this.fresh = this.image(`${name}:1`);
  }

  hasImage = async (reference: string) =>
    (await this.said('image', 'ls')).split('\n').some((line) => {
      const [repository, tag] = line.split(/ +/);
      return `${repository}:${tag}` === reference;
    });

  /** Kills the engine at a moment; the first promise resolves when that is prepared, the second when the engine is dead. */
  async killAt(moment: Moment): Promise<{ killed: Promise<void> }> {
    const { promise: killed, resolve, reject } = Promise.withResolvers<void>();
    const kill = () => this.#engine.kill().then(resolve, reject);
    if (moment === 'at a layer')
      this.#proxy.fault = (path) => {
        if (!path.includes('/blobs/')) return undefined;
        return async () => {
          await kill();
          return undefined;
        };
      };
    else if (moment === 'at a file')
      this.hub.fault = (path) => {
        if (path.includes('/resolve/')) void kill();
        return undefined;
      };
    else {
      const [when, hold] = moment.split(' ');
      const child = this.home.process;
      const armed = new Promise<void>((done) => child?.once('message', () => done()));
      child?.send({ hold, when });
      await armed;
      child?.once('message', () => void kill().then(() => child.send('go')));
    }
    return { killed };
  }

  async revive(): Promise<void> {
    this.#proxy.fault = undefined;
    this.hub.fault = undefined;
    await this.#engine.start();
    await this.ready();
  }

  kill = () => this.#engine.kill();

  isReady = () =>
    callEngine(`unix://${join(this.home.folder, 'run', 'api.sock')}`, 'GET', '/health/ready').then(
      () => true,
      () => false,
    );
  ready = () => until('the agent to have its engine', this.isReady, 60_000);
  lost = () => until('the agent to miss its engine', async () => !(await this.isReady()), 60_000);

  /** What holds at any time once the engine is back. */
  async holds(): Promise<void> {
    await until('what is kept to run', async () => /keep +RUNNING/.test(await this.said('ms', 'ls')), 60_000);
    const uuids = (await this.home.containers()).map(({ uuid }) => uuid);
    expect(uuids).toEqual([...new Set(uuids)]);
    expect(readFileSync(join(await this.volumeOf('keep'), 'file'), 'utf8')).toBe(KEPT);
    expect(await this.hasImage(this.image('keep:1'))).toBe(true);
  }
}

interface Row {
  /** Makes the state before. */
  prepare?(machine: Killable): Promise<unknown>;
  act(machine: Killable): Promise<Answer>;
  moments: readonly Moment[];
  /** Throws unless the wish has come true. */
  settled(machine: Killable): Promise<unknown>;
  /** what a second attempt answers where the first was complete, besides 0 */
  again?: readonly number[];
}

const at = (...calls: string[]): Moment[] =>
  calls.flatMap((call) => (['before', 'during', 'after'] as const).map((when): Moment => `${when} ${call}`));

const pulled = async (machine: Killable) => void (await machine.said('image', 'pull', machine.fresh));
const imageIsGone = async (machine: Killable) => expect(await machine.hasImage(machine.fresh)).toBe(false);
const imageIsThere = async (machine: Killable) => expect(await machine.hasImage(machine.fresh)).toBe(true);
const removed = async (machine: Killable, name: string) => {
  if ((await machine.said('ms', 'ls')).includes(` ${name} `)) await machine.said('ms', 'rm', name);
};
const nameless = (text: string) => `registry.example/killed/${text.replace(/.*\//, '').replace(/:.*/, '')}:1`;
/** A microservice that was removed, and whose volume stays. */
const leftVolume = async (machine: Killable) => {
  await machine.deploy('gone', { image: 'keep:1', volume: true });
  await machine.said('ms', 'rm', 'gone');
};
const leftClaims = async (machine: Killable) => (await machine.claims()).filter(({ desired }) => !desired);
const runsWeb = (version: 1 | 2) => async (machine: Killable) => {
  const runs = async () => (await (await fetch(`http://127.0.0.1:${machine.port}/`)).text()).trim() === `${version}`;
  await until('the microservice', runs, 60_000);
  await until('one container', async () => (await machine.home.containers()).length === 2);
};
const stateIs = (state: string) => (machine: Killable) =>
  until(state, async () => new RegExp(` web +${state}`).test(await machine.said('ms', 'ls')), 60_000);
const webRuns = (machine: Killable) => machine.said('deploy', '-f', machine.web(1));
const artifact = (noun: 'model' | 'knowledge', kind: 'Model' | 'Knowledge'): Row => ({
  prepare: async ({ hub, cli }) => {
    await cli(noun, 'rm', 'tiny');
    for (const each of ['models', 'datasets']) hub.commit(`${each}/team/tiny`, { 'a.txt': `${Math.random()}` }, 'main');
  },
  act: (machine) => {
    const spec = { repo: 'team/tiny', registry: 4, revision: 'main' };
    return machine.cli('deploy', '-f', machine.file({ kind, metadata: { name: 'tiny' }, spec }));
  },
  moments: ['at a file'],
  settled: async (machine) => expect(await machine.said(noun, 'ls')).toMatch(/tiny .* Ready/),
});

const ROWS: Readonly<Record<string, Row>> = {
  'image pull': {
    act: (machine) => machine.cli('image', 'pull', machine.fresh),
    moments: [...at('pull'), 'at a layer'],
    settled: imageIsThere,
  },
  'image load': {
    prepare: async (machine) => {
      const image = await sampleImage({ env: { GREETING: machine.fresh } });
      const name = nameless(machine.fresh);
      writeFileSync(join(machine.folder, 'image.tar'), saveImage(image, name));
    },
    act: (machine) => machine.cli('image', 'load', '-f', join(machine.folder, 'image.tar')),
    moments: at('loadImages'),
    settled: async (machine) => expect(await machine.hasImage(nameless(machine.fresh))).toBe(true),
  },
  'image prune': {
    prepare: pulled,
    act: ({ cli }) => cli('image', 'prune'),
    moments: at('imageUses', 'imageBytes', 'removeImage'),
    settled: imageIsGone,
  },
  'image rm': {
    prepare: pulled,
    act: (machine) => machine.cli('image', 'rm', machine.fresh),
    moments: at('imageUses', 'listImages', 'removeImage'),
    settled: imageIsGone,
    again: [NOT_FOUND],
  },
  'prune all': {
    prepare: pulled,
    act: ({ cli }) => cli('prune', 'all'),
    moments: at('imageUses', 'removeImage'),
    settled: imageIsGone,
  },
  'volume prune': {
    prepare: leftVolume,
    act: ({ cli }) => cli('volume', 'prune', '--yes', '--force'),
    moments: at('allBinds'),
    settled: async (machine) => expect(await leftClaims(machine)).toEqual([]),
  },
  'volume rm': {
    prepare: leftVolume,
    act: async (machine) => machine.cli('volume', 'rm', (await leftClaims(machine))[0]?.uuid ?? 'none'),
    moments: at('allBinds'),
    settled: async (machine) => expect(await leftClaims(machine)).toEqual([]),
  },
  'a first deploy': {
    prepare: (machine) => removed(machine, 'web'),
    act: (machine) => machine.cli('deploy', '-f', machine.web(1)),
    moments: at('create', 'start'),
    settled: runsWeb(1),
  },
  'a deploy of another manifest': {
    prepare: webRuns,
    act: (machine) => machine.cli('deploy', '-f', machine.web(2)),
    moments: at('create', 'stop', 'start', 'remove'),
    settled: runsWeb(2),
  },
  'ms rm': {
    prepare: webRuns,
    act: ({ cli }) => cli('ms', 'rm', 'web'),
    moments: at('stop', 'remove'),
    settled: (machine) => until('no container', async () => (await machine.home.containers()).length === 1, 60_000),
    again: [NOT_FOUND],
  },
  'ms stop': {
    prepare: webRuns,
    act: ({ cli }) => cli('ms', 'stop', 'web'),
    moments: at('stop'),
    settled: stateIs('STOPPED'),
  },
  'ms start': {
    prepare: async (machine) => {
      await webRuns(machine);
      await machine.said('ms', 'stop', 'web');
    },
    act: ({ cli }) => cli('ms', 'start', 'web'),
    moments: at('start'),
    settled: runsWeb(1),
  },
  'ms restart': {
    prepare: webRuns,
    act: ({ cli }) => cli('ms', 'restart', 'web'),
    moments: at('stop', 'start'),
    settled: runsWeb(1),
  },
  'a deploy of a model': artifact('model', 'Model'),
  'a deploy of knowledge': artifact('knowledge', 'Knowledge'),
};

/** The rows of the day. */
const DAY: Partial<Record<Kind, readonly [string, Moment][]>> = {
  docker: [['image prune', 'during removeImage']],
  embedded: [['a deploy of another manifest', 'after create']],
};

const casesOf = (kind: Kind): (readonly [string, Moment])[] =>
  LONG
    ? Object.entries(ROWS).flatMap(([name, { moments }]) => moments.map((moment) => [name, moment] as const))
    : [...(DAY[kind] ?? [])];

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'engine-killed/web', '1', '2');
  const cmd = ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo line $i; sleep 0.2; done'];
  await pushImage(inject('registryUrl'), 'engine-killed/keep', '1', shellImage({ cmd }));
});

describe.each(inject('everyEngine').filter(({ kind }) => casesOf(kind).length > 0))('$kind is killed', ({ kind }) => {
  let machine: Killable;
  beforeAll(async () => {
    machine = await Killable.start(kind);
  }, 120_000);
  afterAll(() => machine?.[Symbol.asyncDispose](), 60_000);

  test.each(casesOf(kind))('in "%s" %s', { timeout: 240_000 }, async (name, moment) => {
    const { prepare, act, settled, again = [] } = ROWS[name] as Row;
    await machine.pushFresh();
    await prepare?.(machine);
    const { killed } = await machine.killAt(moment);
    const acting = act(machine);
    const isOver = acting.then((answer) => ({ answer }));
    const first = await Promise.race([killed, isOver]);
    expect(first, `the moment did not come: ${JSON.stringify(first)}`).toBeUndefined();
    await Promise.race([machine.lost(), acting]);
    await machine.revive();
    const { code, out, err } = await acting;
    if (process.env.SKERRY_SHOW) process.stderr.write(`${kind} ${name} ${moment}: ${code} ${out}${err}\n`);
    if (code !== 0) {
      expect(`${out}${err}`).toMatch(/engine/i);
      const second = await act(machine);
      expect([0, ...again], `${second.out}${second.err}`).toContain(second.code);
    }
    await settled(machine);
    await machine.holds();
  });

  describe.runIf(LONG)('beside a stream', () => {
    /** A command that goes on, and what it has printed. */
    function begin(...words: string[]) {
      const main = join(import.meta.dirname, '..', 'main.ts');
      const child = spawn(process.execPath, [main, ...words, '--config', machine.home.config]);
      const said = { out: '', err: '' };
      child.stdout.setEncoding('utf8').on('data', (text: string) => {
        said.out += text;
      });
      child.stderr.setEncoding('utf8').on('data', (text: string) => {
        said.err += text;
      });
      return { child, said, ended: once(child, 'exit') };
    }

    test('of a log, which goes on', async () => {
      const { child, said, ended } = begin('ms', 'logs', '--follow', 'keep');
      await until('lines', () => said.out.includes('line'));
      await machine.kill();
      await machine.lost();
      await machine.revive();
      await machine.holds();
      const before = said.out.length;
      await until(`further lines: ${said.err}`, () => said.out.length > before + 20, 60_000);
      child.kill('SIGINT');
      expect(await ended).toEqual([130, null]);
    }, 120_000);

    test('of a program, which ends in words and without an exit code of its own', async () => {
      const { said, ended } = begin('ms', 'exec', '-i', 'keep', '--', 'sh', '-c', 'echo begun; exec cat');
      await until('the program', () => said.out.includes('begun'));
      await machine.kill();
      await machine.lost();
      await machine.revive();
      await machine.holds();
      const end = await Promise.race([ended, sleep(30_000, undefined)]);
      if (process.env.SKERRY_SHOW) process.stderr.write(`exec: ${JSON.stringify([end, said])}\n`);
      expect(end?.[0]).not.toBe(0);
      expect(said.err).not.toBe('');
      expect(await machine.said('ms', 'exec', 'keep', '--', 'cat', '/data/file')).toBe(KEPT);
    }, 120_000);
  });
});
