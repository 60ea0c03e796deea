import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, inject } from 'vitest';
import { callEngine } from '../../../hack/engine-api.ts';
import { pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { TestHub } from '../content/artifacts/_hub.ts';
import { type RegistryProxy, startRegistryProxy } from '../content/registries/_registries.ts';
import type { VolumeClaim } from '../domain/volume.ts';
import { until } from '../engines/_contract.ts';
import type { TestEngine } from '../engines/_outside.ts';
import { type OwnTestEngine, startOwnEngine } from '../engines/_private.ts';
import { manifestOf } from '../local/_manifest.ts';
import { CliError, LocalClient } from '../local-api/client.ts';

const BLOCKED_CALL = join(import.meta.dirname, '_blocked-call.ts');
export const KEPT = 'what a volume has';
export const API = 'agent.skerry.dev/v1';
export const VOLUME = { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' };
/** The longest time that an answer or an end may take, ms. */
export const ANSWER = 60_000;

type When = 'before' | 'during' | 'after';
/** at a call of the engine, at a layer that the registry sends, or at a file that the hub sends */
export type Moment = `${When} ${string}` | 'at a layer' | 'at a file';

export type Victim = 'engine' | 'agent';

interface Operation {
  operationId: string;
  status: string;
  error?: { code: string; message: string };
}

/** A machine whose engine and agent can be killed, and the microservice `keep` that nothing may harm. */
export class Killable implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'skerry-engine-killed-'));
  readonly home: Home;
  readonly port: number;
  readonly hub: TestHub;
  readonly #engine: OwnTestEngine;
  readonly #proxy: RegistryProxy;
  #serial = 0;
  #isAlive = true;
  /** called when the agent waits at the call that the test names */
  #onBlocked: (() => void) | undefined;
  /** an image that nothing on this machine has */
  fresh = '';

  private constructor(engine: OwnTestEngine, proxy: RegistryProxy, hub: TestHub, port: number) {
    this.home = new Home({ engineUrl: engine.url });
    this.port = port;
    this.hub = hub;
    this.#engine = engine;
    this.#proxy = proxy;
  }

  static async start(kind: TestEngine['kind']): Promise<Killable> {
    const proxy = await startRegistryProxy('127.0.0.1', { url: inject('registryUrl') });
    const engine = await startOwnEngine(kind, { registry: proxy.host });
    const machine = new Killable(engine, proxy, await TestHub.start(), await freePort());
    await machine.#up();
    await machine.deploy('keep', 'keep:1', { volumes: [VOLUME] });
    writeFileSync(join(await machine.volumeOf('keep'), 'file'), KEPT);
    const spec = { url: machine.hub.url, id: 4, type: 'hub', private: false };
    const manifest = JSON.stringify({ apiVersion: API, kind: 'Registry', spec });
    await machine.call('POST', '/v1/deploy/registries:apply', { form: { manifest } });
    return machine;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.home.remove();
    for (const part of [this.#engine, this.#proxy, this.hub]) await part[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #up(): Promise<void> {
    await this.home.up({ imports: [BLOCKED_CALL] });
    this.home.process?.on('message', (word) => word === 'blocked' && this.#onBlocked?.());
    await this.ready();
  }

  image = (name: string) => `${this.#proxy.host}/engine-killed/${name}`;

  /** Asks the local API; throws CliError with the code of a refusal. */
  call<T = unknown>(method: string, path: string, options: Parameters<LocalClient['call']>[2] = {}): Promise<T> {
    const run = join(this.home.folder, 'run');
    const places = { socket: join(run, 'api.sock'), tokenFile: join(run, 'token'), configFile: this.home.config };
    return new LocalClient({ ...places, signal: AbortSignal.timeout(ANSWER) }).call<T>(method, path, options);
  }

  /** Begins an operation, and has it at its end, which comes. Throws CliError with the code of its failure. */
  async carryOut(path: string, options: Parameters<LocalClient['call']>[2]): Promise<void> {
    const begun = await this.call<Operation>('POST', path, options);
    const now = await until(
      `the end of ${path}`,
      async () => {
        const seen = await this.call<Operation>('GET', `${path}/${begun.operationId}`);
        return seen.status !== 'running' && seen;
      },
      ANSWER,
    );
    if (now.error) throw new CliError(now.error.code, now.error.message);
  }

  /** Applies a manifest. */
  apply = (kind: string, manifest: string) => this.carryOut(`/v1/deploy/${kind}:apply`, { form: { manifest } });
  deploy = (name: string, image: string, container: object = {}) =>
    this.apply('microservices', manifestOf(name, this.image(image), container));
  web = (version: 1 | 2) => this.deploy('web', `web:${version}`, { ports: [{ internal: 8080, external: this.port }] });
  pull = () => this.carryOut('/v1/images:pull', { body: { image: this.fresh, async: true } });

  async stateOf(name: string): Promise<string | undefined> {
    const { items } = await this.call<{ items: { name: string; state: string }[] }>('GET', '/v1/ms');
    return items.find((each) => each.name === name)?.state;
  }

  /** The folder of the volume of a microservice of this machine. */
  async volumeOf(name: string): Promise<string> {
    const found = (await this.claims()).find(({ consumers }) => consumers.some((each) => each.name === name));
    if (!found) throw new Error(`${name} has no volume`);
    return found.hostPath;
  }

  claims = async () => (await this.call<{ volumes: VolumeClaim[] }>('GET', '/v1/volumes')).volumes;
  leftClaims = async () => (await this.claims()).filter(({ desired }) => !desired);

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

  async hasImage(reference: string): Promise<boolean> {
    const { items } = await this.call<{ items: { repository: string; tag: string }[] }>('GET', '/v1/images');
    return items.some(({ repository, tag }) => `${repository}:${tag}` === reference);
  }

  /** Kills the engine, or the agent, at a moment; resolves when that is prepared. `begun`: the moment has come. */
  async killAt(moment: Moment, victim: Victim = 'engine'): Promise<{ begun: Promise<void>; killed: Promise<void> }> {
    const [begun, killed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // An engine asks for several layers at once; its next life is not to end by the second one.
    let dying: Promise<void> | undefined;
    const kill = () => {
      begun.resolve();
      dying ??= this.kill(victim).then(killed.resolve, killed.reject);
      return dying;
    };
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
      this.#onBlocked = () => void kill().then(() => victim === 'engine' && child?.send('go'));
      const armed = new Promise<void>((done) => child?.once('message', () => done()));
      child?.send({ hold, when });
      await armed;
    }
    return { begun: begun.promise, killed: killed.promise };
  }

  async revive(): Promise<void> {
    this.#proxy.fault = undefined;
    this.hub.fault = undefined;
    this.#onBlocked = undefined;
    if (!this.#isAlive) await this.#engine.start();
    this.#isAlive = true;
    const { process: child } = this.home;
    if (child?.signalCode) return this.#up();
    child?.send({ hold: '' });
    await this.ready();
  }

  async kill(victim: Victim = 'engine'): Promise<void> {
    if (victim === 'agent') return this.home.end('SIGKILL');
    this.#isAlive = false;
    await this.#engine.kill();
  }

  isReady = () =>
    callEngine(`unix://${join(this.home.folder, 'run', 'api.sock')}`, 'GET', '/health/ready').then(
      () => true,
      () => false,
    );
  ready = () => until('the agent to have its engine', this.isReady, ANSWER);
  lost = () => until('the agent to miss its engine', async () => this.#isAlive || !(await this.isReady()), ANSWER);

  async artifact(kind: 'models' | 'knowledge'): Promise<{ name: string; state: string }> {
    return this.call('GET', `/v1/${kind}/tiny`);
  }

  /** What holds at any time once the engine is back. */
  async holds(): Promise<void> {
    await until('what is kept to run', async () => (await this.stateOf('keep')) === 'RUNNING', ANSWER);
    const uuids = (await this.home.containers()).map(({ uuid }) => uuid);
    expect(uuids).toEqual([...new Set(uuids)]);
    expect(readFileSync(join(await this.volumeOf('keep'), 'file'), 'utf8')).toBe(KEPT);
    expect(await this.hasImage(this.image('keep:1'))).toBe(true);
  }
}

/** The moments of these calls. */
export const at = (...calls: string[]): Moment[] =>
  calls.flatMap((call) => (['before', 'during', 'after'] as const).map((when): Moment => `${when} ${call}`));
