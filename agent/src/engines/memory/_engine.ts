import { createHash } from 'node:crypto';
import { CONTAINER_LABELS } from '../../../../src/api/names.ts';
import { readTar } from '../../../../src/lib/tar/read.ts';
import { LABEL_REBUILD_COUNT, STAMPS } from '../../domain/names.ts';
import type { EngineEvent } from '../../engine-port/connection.ts';
import type { Container } from '../../engine-port/container.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import type { Capability, Engine } from '../../engine-port/engine.ts';
import { EngineError } from '../../engine-port/error.ts';
import type { ExecOptions, ExecPort, StartedProgram } from '../../engine-port/exec.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import type { ImageUse, LocalImage, PullRequest } from '../../engine-port/images.ts';
import type { LogLine, LogOptions, LogPort } from '../../engine-port/logs.ts';
import type { EngineNetwork } from '../../engine-port/networks.ts';
import type { OtherAgentContainer } from '../../engine-port/ownership.ts';
import { MemoryLog } from './_log.ts';
import { MemoryProgram } from './_program.ts';

/** Bytes that each image counts for. */
export const MEMORY_IMAGE_BYTES = 1000;

/** Faults that a test injects into a memory engine. */
export interface Faults {
  /** called before each operation; throw to make it fail */
  before?: (operation: string, subject: string) => void | Promise<void>;
  /** called after each operation has had its effect; throw to lose the answer */
  after?: (operation: string, subject: string) => void | Promise<void>;
}

interface Item extends Container {
  spec: ContainerSpec;
}

/**
 * An engine that runs nothing: it keeps containers in memory and behaves like a real one as far as the port promises.
 * For simulations of many agents in one process and for tests of everything above the port.
 */
export class MemoryEngine implements Engine, ExecPort, LogPort {
  readonly url = 'memory:';
  readonly capabilities: ReadonlySet<Capability> = new Set(['exec', 'logs']);
  readonly faults: Faults;
  /** images that a pull finds, by reference */
  readonly registry = new Map<string, string>();
  /** images that are there, by reference */
  readonly images = new Map<string, string>();
  /** every operation that had an effect, in order */
  readonly history: string[] = [];
  /** programs that were started in containers, the latest last */
  readonly programs: MemoryProgram[] = [];
  /** every reference is found, without an entry in `registry` */
  readonly anyImage: boolean;
  #items = new Map<string, Item>();
  #logs = new Map<string, MemoryLog>();
  #network: EngineNetwork | undefined;
  #next = 1;
  #listeners = new Set<(event: EngineEvent) => void>();
  #now: () => number;

  constructor({ now = Date.now, faults = {}, anyImage = false }: MemoryEngineOptions = {}) {
    this.#now = now;
    this.faults = faults;
    this.anyImage = anyImage;
  }

  async connect(): Promise<EngineFacts> {
    return {
      kind: 'docker',
      version: 'memory',
      apiVersion: '1.41',
      runtimes: ['runc'],
      choosesRuntime: true,
      rootless: false,
      selinux: false,
      architecture: 'amd64',
      startInterval: false,
      cdi: false,
      links: true,
      defaultLimits: [],
    };
  }

  async containers(): Promise<Container[]> {
    return [...this.#items.values()].map(({ spec, ...container }) => ({ ...container }));
  }

  async foreignContainers(): Promise<string[]> {
    return [];
  }

  async containersOfOtherAgents(): Promise<OtherAgentContainer[]> {
    return [];
  }

  /** what containers of others bind, by their names */
  readonly othersBind = new Map<string, string>();

  async allBinds(): Promise<{ container: string; source: string }[]> {
    await this.faults.before?.('allBinds', '');
    const own = [...this.#items.values()].flatMap(({ name, binds = [] }) =>
      binds.map(({ source }) => ({ container: name, source })),
    );
    return [...own, ...[...this.othersBind].map(([container, source]) => ({ container, source }))];
  }

  become(): void {}

  async network(): Promise<EngineNetwork | undefined> {
    return this.#network;
  }

  async ensureNetwork(): Promise<EngineNetwork> {
    return this.#act('network', '', () => {
      this.#network ??= { id: `network-${this.#next++}`, name: 'skerry', gateway: '172.30.0.1' };
      return this.#network;
    });
  }

  async removeNetwork(): Promise<void> {
    this.#network = undefined;
  }

  async image(reference: string): Promise<string | undefined> {
    return this.images.get(reference);
  }

  async pull({ reference, onProgress }: PullRequest, signal?: AbortSignal): Promise<string> {
    return this.#act('pull', reference, () => {
      signal?.throwIfAborted();
      const id = this.registry.get(reference) ?? (this.anyImage ? imageIdOf(reference) : undefined);
      if (id === undefined) throw new EngineError('ImageNotFound', `no image ${reference}`);
      onProgress?.(100);
      this.images.set(reference, id);
      return id;
    });
  }

  async removeImage(id: string): Promise<void> {
    for (const [reference, image] of this.images) if (image === id || reference === id) this.images.delete(reference);
  }

  async imageBytes(id: string): Promise<number> {
    return [...this.images.values()].includes(id) ? MEMORY_IMAGE_BYTES : 0;
  }

  async tag(id: string, reference: string): Promise<void> {
    this.images.set(reference, id);
  }

  async imageNames(): Promise<string[]> {
    return [...this.images.keys()];
  }

  async listImages(): Promise<LocalImage[]> {
    return this.#act('listImages', '', () =>
      [...Map.groupBy(this.images, ([, id]) => id)].map(([id, rows]) => {
        const names = rows.map(([name]) => name);
        const [digests = [], tags = []] = [true, false].map((isPinned) =>
          names.filter((name) => name.includes('@') === isPinned),
        );
        return { id, tags, digests, diskBytes: MEMORY_IMAGE_BYTES };
      }),
    );
  }

  async imageUses(): Promise<ImageUse[]> {
    return [...this.#items.values()].map(({ imageId, name }) => ({ imageId, container: name }));
  }

  async loadImages(archive: AsyncIterable<Uint8Array>): Promise<void> {
    await this.faults.before?.('load', '');
    const files = new Map<string, Buffer>();
    for await (const { path, content } of readTar(archive as AsyncIterable<Buffer>, { toEnd: true })) {
      const pieces: Buffer[] = [];
      for await (const piece of content) pieces.push(Buffer.from(piece));
      files.set(path, Buffer.concat(pieces));
    }
    await this.#act('load', '', () => {
      const manifest = files.get('manifest.json')?.toString() ?? '';
      for (const { Config, RepoTags } of JSON.parse(manifest) as { Config: string; RepoTags?: string[] }[])
        for (const name of RepoTags ?? []) this.images.set(name, idOf(files.get(Config) ?? ''));
    });
  }

  async create(spec: ContainerSpec): Promise<{ id: string; imageId: string }> {
    return this.#act('create', spec.name, () => {
      const imageId = this.images.get(spec.image);
      if (imageId === undefined) throw new EngineError('ImageMissing', `no image ${spec.image}`);
      for (const other of this.#items.values())
        if (other.name === spec.name) throw new EngineError('NameTaken', `the name ${spec.name} is taken`);
      if (!spec.fields.hostNetworkMode && !this.#network) throw new EngineError('NotFound', 'no network');
      const id = `${this.#next++}`.padStart(64, '0');
      this.#items.set(id, {
        id,
        name: spec.name,
        uuid: spec.labels[CONTAINER_LABELS.uuid] ?? '',
        application: spec.labels[CONTAINER_LABELS.application] ?? '',
        microservice: spec.labels[CONTAINER_LABELS.microservice] ?? '',
        digest: spec.labels[CONTAINER_LABELS.digest] ?? '',
        revision: spec.labels[CONTAINER_LABELS.revision] ?? '',
        rebuildCount: Number(spec.labels[LABEL_REBUILD_COUNT] ?? 0),
        generation: Number(spec.labels[CONTAINER_LABELS.generation] ?? 0),
        imageId,
        state: 'created',
        createdAt: this.#now(),
        stamps: Object.fromEntries(Object.entries(spec.labels).filter(([name]) => STAMPS.includes(name))),
        startedAt: 0,
        finishedAt: 0,
        exitCode: 0,
        oomKilled: false,
        error: '',
        hostNetwork: spec.fields.hostNetworkMode === true,
        networkId: spec.fields.hostNetworkMode ? '' : (this.#network?.id ?? ''),
        ports: [],
        pid: 0,
        binds: spec.mounts.map(({ source, readOnly }) => ({ source, writable: !readOnly })),
        spec,
      });
      return { id, imageId };
    });
  }

  async start(id: string): Promise<void> {
    await this.#act('start', id, () => {
      const item = this.#get(id);
      if (item.state === 'running') return;
      for (const other of this.#items.values())
        for (const { external, protocol } of other.state === 'running' ? other.ports : [])
          if (item.spec.ports.some((port) => port.external === external && port.protocol === protocol))
            throw new EngineError('PortTaken', `port ${external} is taken`);
      // Two runs of one container never share a start time, as on a real engine.
      const startedAt = Math.max(this.#now(), item.startedAt + 1);
      this.#set(id, {
        state: 'running',
        startedAt,
        finishedAt: 0,
        pid: 1,
        ip: item.hostNetwork ? undefined : '172.30.0.2',
        ports: item.spec.ports,
        health: item.spec.fields.healthCheck?.test.length ? 'starting' : undefined,
      });
      this.#tell(id, 'start');
    });
  }

  async processOf(): Promise<number> {
    return 0;
  }

  async stop(id: string): Promise<void> {
    await this.#act('stop', id, () => {
      if (this.#get(id).state === 'running') this.exit(id, 143);
    });
  }

  /** As a person on the machine would. */
  async pause(id: string): Promise<void> {
    this.#set(id, { paused: true });
  }

  async resume(id: string): Promise<void> {
    await this.#act('resume', id, () => this.#set(id, { paused: undefined }));
  }

  async kill(id: string): Promise<void> {
    await this.#act('kill', id, () => this.exit(id, 137));
  }

  async rename(id: string, name: string): Promise<void> {
    await this.#act('rename', id, () => {
      this.#get(id);
      for (const other of this.#items.values())
        if (other.name === name && other.id !== id) throw new EngineError('NameTaken', `the name ${name} is taken`);
      this.#set(id, { name });
    });
  }

  async remove(id: string): Promise<void> {
    await this.#act('remove', id, () => {
      if (this.#items.get(id)?.state === 'running') throw new EngineError('Conflict', 'it is running');
      this.#items.delete(id);
      this.#logs.delete(id);
      this.#tell(id, 'destroy');
    });
  }

  logs(id: string, options: LogOptions, signal?: AbortSignal): AsyncIterable<LogLine> {
    return this.logOf(id).read(options, signal);
  }

  /** The log of a container, to write to. */
  logOf(id: string): MemoryLog {
    const log = this.#logs.get(id) ?? new MemoryLog(() => this.#items.get(id)?.state === 'running');
    this.#logs.set(id, log);
    return log;
  }

  async exec(id: string, options: ExecOptions): Promise<MemoryProgram> {
    return this.#act('exec', id, () => {
      if (this.#get(id).state !== 'running') throw new EngineError('Conflict', `container ${id} does not run`);
      const program = new MemoryProgram(id, options);
      options.made?.({ container: id, id: String(this.programs.push(program)) });
      return program;
    });
  }

  async endProgram({ id }: StartedProgram): Promise<void> {
    await this.#act('endProgram', id, () => this.programs[Number(id) - 1]?.end());
  }

  async *events(signal: AbortSignal): AsyncIterable<EngineEvent> {
    const waiting: EngineEvent[] = [{ containerId: '', action: 'connected' }];
    let wake = () => {};
    const listener = (event: EngineEvent) => {
      waiting.push(event);
      wake();
    };
    this.#listeners.add(listener);
    try {
      while (!signal.aborted) {
        const event = waiting.shift();
        if (event) {
          yield event;
          continue;
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
          signal.addEventListener('abort', () => resolve(), { once: true });
        });
      }
    } finally {
      this.#listeners.delete(listener);
    }
  }

  /** Ends a container's process, as if it had done so itself. */
  exit(id: string, exitCode: number): void {
    this.#set(id, {
      state: 'exited',
      exitCode,
      finishedAt: this.#now(),
      pid: 0,
      ip: undefined,
      ports: [],
      health: undefined,
    });
    this.#logs.get(id)?.look();
    for (const program of this.programs) if (program.container === id) program.exit(137);
    this.#tell(id, 'die');
  }

  setHealth(id: string, health: Container['health'], failedCheck?: Container['failedCheck']): void {
    this.#set(id, { health, failedCheck });
    this.#tell(id, 'health_status');
  }

  /** The containers that run, by microservice uuid. */
  running(): Map<string, Container[]> {
    const result = new Map<string, Container[]>();
    for (const item of this.#items.values())
      if (item.state === 'running') result.set(item.uuid, [...(result.get(item.uuid) ?? []), item]);
    return result;
  }

  specOf(id: string): ContainerSpec {
    return this.#get(id).spec;
  }

  #get(id: string): Item {
    const item = this.#items.get(id);
    if (!item) throw new EngineError('NotFound', `no container ${id}`);
    return item;
  }

  #set(id: string, change: Partial<Item>): void {
    this.#items.set(id, { ...this.#get(id), ...change });
  }

  #tell(containerId: string, action: string): void {
    for (const listener of this.#listeners) listener({ containerId, action });
  }

  async #act<T>(operation: string, subject: string, effect: () => T): Promise<T> {
    await this.faults.before?.(operation, subject);
    const result = effect();
    this.history.push(`${operation} ${/^\d+$/.test(subject) ? subject.replace(/^0+(?=\d)/, '#') : subject}`.trim());
    await this.faults.after?.(operation, subject);
    return result;
  }
}

export interface MemoryEngineOptions {
  now?: () => number;
  faults?: Faults;
  anyImage?: boolean;
}

/** The id that a memory engine gives an image that no test registered. */
export function imageIdOf(reference: string): string {
  return idOf(reference);
}

const idOf = (content: string | Buffer) => `sha256:${createHash('sha256').update(content).digest('hex')}`;
