import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { AGENT_BRIDGE_HOST } from '../../../src/api/names.ts';
import { silentLog } from '../../../src/lib/log.ts';
import { createTestAgent } from '../_agent.ts';
import type { Agent } from '../app.ts';
import { runInProcess } from '../cli/_run.ts';
import type { CliDependencies } from '../cli/cli.ts';
import type { AgentDependencies } from '../dependencies.ts';
import { type Config, parseConfig } from '../domain/config.ts';
import { until } from '../engines/_contract.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';
import { filesInMemory } from '../machine/_mounted-files.ts';
import { systemClock } from '../machine/clock.ts';
import { kindOfPath, readText } from '../machine/disk.ts';
import { exchange } from '../machine/http.ts';
import { bufferedSink } from '../machine/log.ts';
import { ownLogReader } from '../machine/own-log.ts';
import { LocalAuthority } from '../state/local-authority.ts';
import {
  type ChangedSettings,
  changeProfile,
  changeSettings,
  type SettingsWriter,
} from './routes/settings/change-settings.ts';
import { installCertificate } from './routes/settings/controller-certificate.ts';
import { ControlChannels } from './routes/workload/control-channels.ts';
import { localApi } from './routes.ts';
import { type LocalApi, listenOnLoopback, listenOnSocket } from './server/server.ts';
import { AdminToken } from './server/token.ts';

export interface Asked {
  status: number;
  body: Record<string, unknown> & {
    success?: boolean;
    data?: Record<string, unknown>;
    error?: { code: string; message: string };
  };
}

/** What a test chooses of the agent. */
export interface LocalAgentOptions {
  /** where the sockets are; stays when the agent ends. Absent: a folder that goes with it */
  folder?: string;
  /** where data and settings are; absent: the same folder */
  data?: string;
  engine?: MemoryEngine;
  controller?: FakeController;
  /** instead of those in memory; `data` is their folder */
  deps?: Partial<
    Pick<
      AgentDependencies,
      | 'database'
      | 'identity'
      | 'ownMicroservices'
      | 'localRegistries'
      | 'localArtifacts'
      | 'localRuntimeClasses'
      | 'artifacts'
      | 'revocations'
    >
  >;
  /** settings are written to the file of settings and taken from there; absent: `refusedSettings` says what happens */
  writesSettings?: boolean;
}

/** An agent without a machine: engine and controller are of this process; its local API is as real as on any other. */
export class LocalAgent implements AsyncDisposable {
  readonly folder: string;
  readonly configFile: string;
  readonly config: Config;
  readonly clock = systemClock();
  readonly engine: MemoryEngine;
  readonly controller: FakeController;
  /** what the agent writes for its containers */
  readonly files = filesInMemory();
  readonly agent: Agent;
  readonly authority: LocalAuthority;
  /** what the agent has logged */
  readonly logs = bufferedSink('INFO', 100, () => {});
  /** errors by setting; those that are not named here are taken */
  refusedSettings: Record<string, string> = {};
  phase: 'initializing' | 'listening' | 'failed' = 'listening';
  servers: Server[] = [];
  token = '';
  readonly #options: LocalAgentOptions;
  readonly #channels: ControlChannels;
  readonly #stop = new AbortController();
  #api: LocalApi | undefined;
  #run: Promise<void> = Promise.resolve();

  constructor(options: LocalAgentOptions = {}) {
    this.folder = options.folder ?? mkdtempSync(join(tmpdir(), 'skerry-api-'));
    const { data = this.folder, engine = new MemoryEngine({ anyImage: true }), deps } = options;
    this.#options = options;
    this.engine = engine;
    this.controller = options.controller ?? new FakeController();
    this.configFile = join(data, 'config.yaml');
    this.config = parseConfig(this.#settings, this.configFile);
    const [file, host] = [join(data, 'local-api.json'), AGENT_BRIDGE_HOST];
    this.authority = new LocalAuthority({ file, host, wall: this.clock.wall, log: silentLog });
    this.agent = createTestAgent({
      ...deps,
      folder: data,
      clock: this.clock,
      engine: () => engine,
      mountedFiles: this.files,
      ownLog: ownLogReader(this.logs, undefined),
    });
    this.#channels = new ControlChannels(this.agent);
  }

  static async start(options: LocalAgentOptions = {}): Promise<LocalAgent> {
    const local = new LocalAgent(options);
    await local.#start();
    return local;
  }

  /** The sockets stay in the agent's own folder. */
  get #settings(): string {
    return `diskDirectory: ${this.#options.data ?? this.folder}\nrunDirectory: ${join(this.folder, 'run')}\n`;
  }

  async #start(): Promise<void> {
    const { agent, clock, config, logs } = this;
    logs.write({ timestamp: '2026-01-01T00:00:00.000Z', level: 'INFO', message: 'Hello' });
    mkdirSync(this.folder, { recursive: true });
    if (!existsSync(this.configFile)) writeFileSync(this.configFile, this.#settings);
    if (!this.#options.controller) await this.controller.listen();
    this.#run = agent.run(this.#stop.signal);
    const adminToken = new AdminToken(config.tokenFile, agent);
    this.#api = localApi({
      ...{ agent, adminToken, channels: this.#channels },
      changeSettings: (set) => this.#changeSettings(set),
      switchProfile: (profile) => changeProfile(profile, this.writer),
      installCertificate: (text) =>
        installCertificate(text, { config: agent.config, changeSettings: (set) => this.#changeSettings(set) }),
      reload: () => this.writer.reload(),
      stop: () => 'leave-running',
      phase: () => this.phase,
    });
    const ports = { clock, log: silentLog, api: this.#api };
    adminToken.write();
    this.token = readFileSync(config.tokenFile, 'utf8').trim();
    this.servers = [
      await listenOnSocket(config.socket, config.runDirectory, ports),
      await listenOnLoopback(0, this.authority, ports),
    ];
  }

  /** Writes the file of settings and takes it, as the agent of a machine does. */
  get writer(): SettingsWriter {
    const { agent, configFile: file } = this;
    const reload = () => {
      Object.assign(agent.config, parseConfig(readFileSync(file, 'utf8'), file));
      agent.settingsChanged();
    };
    const hasInterface = (name: string) => name === 'eth0';
    return { file, agent, reload, facts: { hasInterface, read: readText, kindOf: kindOfPath } };
  }

  #changeSettings(set: Record<string, unknown>): ChangedSettings | Promise<ChangedSettings> {
    if (this.#options.writesSettings) return changeSettings(set, this.writer);
    const refused = Object.keys(set).flatMap((key) =>
      this.refusedSettings[key] ? [[key, this.refusedSettings[key]] as const] : [],
    );
    return { errorMap: Object.fromEntries(refused), restartNeeded: [] };
  }

  /** Makes it a node with these microservices, and waits until all run. */
  async provision(...views: View[]): Promise<void> {
    this.controller.microservices = views;
    await this.agent.provision(this.controller.joinString);
    const runs = ({ uuid }: View) => this.controller.microservice(uuid)?.status === 'RUNNING';
    await until('all RUNNING', () => views.every(runs));
  }

  /** Port of the loopback listener. */
  get port(): number {
    const address = this.servers[1]?.address() as AddressInfo;
    return address.port;
  }

  ask(method: string, path: string, body?: unknown, bearer: string | undefined = this.token): Promise<Asked> {
    return this.#ask(
      method,
      path,
      bearer ? { authorization: `Bearer ${bearer}` } : {},
      body === undefined ? undefined : JSON.stringify(body),
    );
  }

  /** Sends a manifest as a multipart form. */
  upload(path: string, manifest: string, fields: Record<string, string> = {}): Promise<Asked> {
    const part = (head: string, text: string) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${text}\r\n`;
    const parts = Object.entries(fields).map(([name, value]) => part(`name="${name}"`, value));
    const body = `${parts.join('')}${part('name="manifest"; filename="m.yaml"', manifest)}--b--\r\n`;
    const headers = { authorization: `Bearer ${this.token}`, 'content-type': 'multipart/form-data; boundary=b' };
    return this.#ask('POST', path, headers, body);
  }

  async #ask(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Asked> {
    const target = { socketPath: this.config.socket };
    const answer = await exchange({ target, method, path, headers, body, deadline: 10_000 }, 1024 * 1024);
    const isJson = answer.headers['content-type']?.includes('json');
    const reply = { status: answer.status, body: isJson ? JSON.parse(answer.body) : { text: answer.body } };
    if (reply.status < 300 && isJson) this.#expectDocumented(method, path, reply.body);
    return reply;
  }

  /** Every member of a reply is in the schema of its route. */
  #expectDocumented(method: string, path: string, body: Asked['body']): void {
    const { reply } = this.#api?.find(method, new URL(path, 'http://agent').pathname).route ?? {};
    const data = reply?.form === 'envelope' ? body.data : body;
    expect(reply?.schema().parse(data)).toEqual(data);
  }

  cli(...args: string[]): Promise<{ code: number; out: string; err: string }> {
    return this.cliWith({}, ...args);
  }

  cliWith(ports: Partial<CliDependencies>, ...args: string[]): Promise<{ code: number; out: string; err: string }> {
    return runInProcess(['--config', this.configFile, ...args], ports);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of this.servers) {
      server.close();
      server.closeAllConnections();
    }
    this.#channels[Symbol.dispose]();
    this.#stop.abort();
    await this.#run;
    if (!this.#options.controller) await this.controller.close();
    if (!this.#options.folder) rmSync(this.folder, { recursive: true, force: true });
  }
}
