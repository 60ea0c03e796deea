import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { listens } from './_listens.ts';
import type { Container } from './engine-port/container.ts';
import type { CompleteEngine } from './engine-port/engine.ts';
import { cleanUp, until } from './engines/_contract.ts';
import { type ForeignContainer, type Outside, outsideOf, type TestEngine } from './engines/_outside.ts';
import { openEngine } from './engines/open.ts';
import { readText } from './machine/disk.ts';

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

/** A container that is not of the agent. */
export class OtherContainer {
  readonly id: string;
  readonly #outside: Outside;
  readonly #before: string;

  private constructor(outside: Outside, id: string, before: string) {
    this.#outside = outside;
    this.id = id;
    this.#before = before;
  }

  static async start(on: TestEngine, container: ForeignContainer): Promise<OtherContainer> {
    const outside = outsideOf(on);
    const id = await outside.make(container);
    await outside.run(id);
    return new OtherContainer(outside, id, await outside.look(id));
  }

  /** Whether it is as it was. */
  async untouched(): Promise<boolean> {
    return (await this.#outside.look(this.id)) === this.#before;
  }

  async remove(): Promise<void> {
    await this.#outside.remove(this.id).catch(() => {});
  }
}
