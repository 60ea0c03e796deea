import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callEngine } from '../../hack/engine-api.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import { listens } from './_listens.ts';
import type { Container } from './engine-port/container.ts';
import type { CompleteEngine } from './engine-port/engine.ts';
import { cleanUp, until } from './engines/_contract.ts';
import { openEngine } from './engines/open.ts';
import { readText } from './machine/disk.ts';
import { lines, open } from './machine/http.ts';

const MAIN = join(import.meta.dirname, 'main.ts');

export interface HomeOptions {
  engineUrl: string;
  /** where the agent keeps its data; a folder of its own unless a test names one, such as a small file system */
  disk?: string;
  /** settings in addition to those of every home */
  settings?: Record<string, unknown>;
}

export interface StartOptions {
  /** modules that the program loads before its own: they decorate what it stands on */
  imports?: readonly string[];
  env?: Record<string, string>;
}

interface Finished {
  code: number;
  out: string;
  err: string;
}

/** The agent of one machine, as a process, in a folder of its own. */
export class Home {
  readonly folder = mkdtempSync(join(tmpdir(), 'skerry-faults-'));
  readonly config = join(this.folder, 'config.yaml');
  readonly disk: string;
  readonly engineUrl: string;
  process: ChildProcess | undefined;
  log = '';
  #instance = '';

  constructor({ engineUrl, disk, settings = {} }: HomeOptions) {
    this.engineUrl = engineUrl;
    this.disk = disk ?? join(this.folder, 'data');
    const all = {
      containerEngineUrl: engineUrl,
      diskDirectory: this.disk,
      runDirectory: join(this.folder, 'run'),
      localApiPort: 0,
      logLevel: 'DEBUG',
      ...settings,
    };
    writeFileSync(this.config, JSON.stringify(all));
  }

  /** Starts the process. */
  start({ imports = [], env = {} }: StartOptions = {}): ChildProcess {
    const preload = imports.flatMap((file) => ['--import', file]);
    const child = spawn(process.execPath, [...preload, MAIN, 'start', '--config', this.config], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      env: { ...process.env, ...env },
    });
    child.stderr?.setEncoding('utf8').on('data', (piece: string) => {
      this.log += piece;
    });
    this.process = child;
    return child;
  }

  /** Starts the process, and waits until it answers. */
  async up(options?: StartOptions): Promise<void> {
    this.start(options);
    await this.answers();
  }

  async answers(): Promise<void> {
    await until(
      'the agent to answer',
      async () => {
        if (this.#ended) throw new Error(`the agent has ended: ${this.log.slice(-2000)}`);
        return (await listens(join(this.folder, 'run', 'api.sock'))) && (await this.cli('status')).code === 0;
      },
      60_000,
    );
  }

  get #ended(): boolean {
    const { process: child } = this;
    return !child || child.exitCode !== null || child.signalCode !== null;
  }

  /** Waits until the process is gone. */
  async gone(): Promise<void> {
    const child = this.process;
    if (child && !this.#ended) await new Promise<void>((resolve) => child.once('exit', () => resolve()));
  }

  async end(posixSignal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    if (this.#ended) return;
    const gone = this.gone();
    this.process?.kill(posixSignal);
    await gone;
  }

  cli(...args: string[]): Promise<Finished> {
    return new Promise((resolve) => {
      execFile(process.execPath, [MAIN, ...args, '--config', this.config], { timeout: 60_000 }, (error, out, err) =>
        resolve({ code: error ? Number(error.code ?? 1) : 0, out, err }),
      );
    });
  }

  /** The id that this agent's containers carry. */
  get instance(): string {
    const text = this.#instance ? undefined : readText(join(this.disk, 'identity.json'));
    if (text) this.#instance = (JSON.parse(text) as { instance: string }).instance;
    return this.#instance;
  }

  async engine(): Promise<CompleteEngine> {
    const engine = openEngine({ url: this.engineUrl, instance: this.instance });
    await engine.connect();
    return engine;
  }

  async containers(): Promise<Container[]> {
    return (await this.engine()).containers();
  }

  async remove(): Promise<void> {
    await this.end('SIGKILL');
    if (this.instance) await cleanUp(await this.engine());
    rmSync(this.folder, { recursive: true, force: true });
  }
}

const FILTERS = JSON.stringify({ type: ['container'], event: ['start', 'die'] });

/**
 * What the engine itself reports of these microservices: how often each was started, and whether two containers of one ran
 * at once. Other tests use the same engine, and some of them make doubles on purpose.
 */
export class EngineObserver {
  readonly url: string;
  readonly uuids: ReadonlySet<string>;
  /** starts by microservice since the last `forget` */
  readonly starts = new Map<string, number>();
  /** containers of one microservice that ran at once: `<uuid>: <container> and <container>` */
  readonly doubles: string[] = [];
  readonly #running = new Map<string, Set<string>>();
  readonly #seen = new Set<string>();
  readonly #closed = new AbortController();

  constructor(url: string, uuids: readonly string[]) {
    this.url = url;
    this.uuids = new Set(uuids);
    this.#listen().catch((error: unknown) => this.#closed.signal.aborted || this.doubles.push(`no events: ${error}`));
  }

  async #listen(): Promise<void> {
    const target = { socketPath: this.url.replace('unix://', '') };
    const { signal } = this.#closed;
    const path = `/events?${new URLSearchParams({ filters: FILTERS })}`;
    const incoming = await open({ target, method: 'GET', path, deadline: 30_000, signal });
    for await (const line of lines(incoming, 1024 * 1024)) this.#take(line);
  }

  /** Waits until everything that has happened is known; events that the stream has not brought yet are asked for. */
  async read(): Promise<this> {
    const now = Date.now() / 1000;
    const query = new URLSearchParams({ since: String(now - 5), until: String(now), filters: FILTERS });
    const answer = await callEngine(this.url, 'GET', `/events?${query}`);
    const events = typeof answer === 'string' ? answer.split('\n').filter(Boolean) : [JSON.stringify(answer)];
    for (const line of events) this.#take(line);
    return this;
  }

  close(): void {
    this.#closed.abort();
  }

  #take(line: string): void {
    const { Action, Actor, timeNano } = JSON.parse(line) as {
      Action: string;
      timeNano: number;
      Actor: { ID: string; Attributes: Record<string, string> };
    };
    const uuid = Actor.Attributes[CONTAINER_LABELS.uuid];
    const key = `${Actor.ID} ${Action} ${timeNano}`;
    if (!uuid || !this.uuids.has(uuid) || this.#seen.has(key)) return;
    this.#seen.add(key);
    const running = this.#running.get(uuid) ?? new Set();
    this.#running.set(uuid, running);
    if (Action === 'die') running.delete(Actor.ID);
    else {
      for (const other of running) this.doubles.push(`${uuid}: ${Actor.ID.slice(0, 12)} and ${other.slice(0, 12)}`);
      running.add(Actor.ID);
      this.starts.set(uuid, (this.starts.get(uuid) ?? 0) + 1);
    }
  }

  forget(): void {
    this.starts.clear();
  }
}

/** A container that is not of the agent. */
export class OtherContainer {
  readonly url: string;
  readonly id: string;
  readonly #before: string;

  private constructor(url: string, id: string, before: string) {
    this.url = url;
    this.id = id;
    this.#before = before;
  }

  static async start(
    url: string,
    { name, image, labels = {} }: { name: string; image: string; labels?: Record<string, string> },
  ): Promise<OtherContainer> {
    const { Id } = await callEngine<{ Id: string }>(url, 'POST', `/containers/create?name=${name}`, {
      Image: image,
      Labels: labels,
      HostConfig: { Ulimits: [{ Name: 'nofile', Soft: 1024, Hard: 1024 }] },
    });
    await callEngine(url, 'POST', `/containers/${Id}/start`);
    return new OtherContainer(url, Id, await OtherContainer.#look(url, Id));
  }

  /** What would change if the agent touched it. */
  static async #look(url: string, id: string): Promise<string> {
    const { Name, Image, State, HostConfig, NetworkSettings } = await callEngine<Record<string, unknown>>(
      url,
      'GET',
      `/containers/${id}/json`,
    );
    return JSON.stringify({ Name, Image, State, HostConfig, NetworkSettings });
  }

  /** Whether it is as it was. */
  async untouched(): Promise<boolean> {
    return (await OtherContainer.#look(this.url, this.id)) === this.#before;
  }

  async remove(): Promise<void> {
    await callEngine(this.url, 'DELETE', `/containers/${this.id}?force=1&v=1`).catch(() => {});
  }
}
