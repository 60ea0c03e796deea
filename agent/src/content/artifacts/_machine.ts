import { randomUUID } from 'node:crypto';
import { lstatSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type MicroserviceView, microserviceViewSchema, registryViewSchema } from '../../../../src/wire/agent.ts';
import { type ArtifactStatus, type ArtifactView, artifactViewSchema } from '../../../../src/wire/artifacts.ts';
import type { ArtifactKind, OwnArtifacts } from '../../domain/artifact.ts';
import type { DiskRoom } from '../../domain/disk-room.ts';
import type { Entry } from '../../domain/entry.ts';
import type { Observed } from '../../domain/part.ts';
import { OPEN_POLICY, type Policy } from '../../domain/policy.ts';
import { readMicroservices } from '../../domain/sent-microservices.ts';
import type { Container } from '../../engine-port/container.ts';
import { until } from '../../engines/_contract.ts';
import { systemClock } from '../../machine/clock.ts';
import { bufferedSink, createLog } from '../../machine/log.ts';
import { type ArtifactSources, Artifacts } from './artifacts.ts';
import { Projections } from './projection.ts';
import { ArtifactStore } from './store.ts';

export const NO_OWN_ARTIFACTS: OwnArtifacts = { views: { models: [], knowledge: [] }, unreadable: new Set() };

/** The directories of one machine, and what its controller and its engine say; the process on it can be started anew. */
export class TestMachine implements AsyncDisposable {
  readonly folder: string;
  readonly volumes: string;
  sources: Omit<ArtifactSources, 'entries'> & { entries: ArtifactSources['entries'] | undefined } = {
    desired: { models: [], knowledge: [] },
    own: NO_OWN_ARTIFACTS,
    entries: [],
    retains: false,
    containers: [],
    registries: new Map(),
  };
  room: DiskRoom = { total: 1024 ** 4, available: 1024 ** 4 };
  policy: Partial<Policy> = {};
  rateLimit = 0;
  quiet = 60_000;
  /** ms until a branch or tag is looked up again */
  lookUpEvery = 3600_000;
  logged = '';
  readonly pauses: number[] = [];
  readonly counted: Record<string, number> = {};
  artifacts!: Artifacts;
  #stop = new AbortController();
  #run: Promise<void> = Promise.resolve();

  constructor(folder = mkdtempSync(join(tmpdir(), 'skerry-artifacts-'))) {
    this.folder = folder;
    this.volumes = join(folder, 'volumes');
  }

  start(): this {
    const clock = systemClock();
    this.#stop = new AbortController();
    const sink = bufferedSink('DEBUG', 1, (line) => {
      this.logged += line;
    });
    this.artifacts = new Artifacts({
      store: new ArtifactStore(join(this.folder, 'artifacts')),
      projections: new Projections(this.volumes),
      clock: {
        ...clock,
        after: (ms, callback) => {
          this.pauses.push(ms);
          return clock.after(ms, callback);
        },
      },
      // All pauses with jitter are divided by fifty.
      random: () => -4.4,
      log: createLog(sink),
      metrics: {
        add: (name: string, labels: Record<string, string>, by?: number) => {
          const key = [name, ...Object.values(labels)].join(' ');
          this.counted[key] = (this.counted[key] ?? 0) + (by ?? 1);
        },
      },
      platform: { os: 'linux', architecture: 'amd64' },
      observed: this.#observed(),
      own: () => this.sources.own,
      reach: () => ({ policy: { ...OPEN_POLICY, ...this.policy }, ownAddresses: () => [] }),
      room: async () => this.room,
      rateLimit: () => this.rateLimit,
      imagesPulled: () => false,
      changed: () => {},
      progressed: () => {},
      quiet: this.quiet,
      lookUpDelay: () => this.lookUpEvery,
    });
    this.#look();
    this.#run = this.artifacts.run(this.#stop.signal);
    return this;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#run;
  }

  /** Changes what is known of controller and engine. */
  change(change: Partial<TestMachine['sources']>): void {
    const before = this.sources;
    this.sources = { ...this.sources, ...change };
    this.#look();
    const ids = [...this.sources.registries].filter(([id, each]) => before.registries.get(id) !== each);
    this.artifacts.registriesChanged(new Set(ids.map(([id]) => id)));
  }

  #look(): void {
    const { desired, retains, registries } = this.sources;
    const retainUnlisted = retains ? { reason: 'DatastoreRestored' } : undefined;
    const microservices = readMicroservices([], retainUnlisted);
    this.artifacts.look({ models: undefined, knowledge: undefined, ...desired, registries, microservices });
  }

  #observed(): Observed {
    const known = () => this.sources;
    return {
      get desired() {
        return known().entries ?? [];
      },
      get knowsAll() {
        return known().entries !== undefined;
      },
      get containers() {
        return known().containers ?? [];
      },
      get hasLooked() {
        return known().containers !== undefined;
      },
      pending: 0,
      record: () => undefined,
    };
  }

  registry(change: object): void {
    const registry = registryViewSchema.parse({ id: 7, url: '', ...change });
    this.change({ registries: new Map(this.sources.registries).set(registry.id, registry) });
  }

  want(kind: ArtifactKind, ...views: ArtifactView[]): void {
    this.change({ desired: { ...this.sources.desired, [kind]: views } });
  }

  run(...entries: Entry[]): void {
    this.change({ entries });
  }

  status(kind: ArtifactKind, name: string): ArtifactStatus | undefined {
    return this.artifacts.statuses(kind).find((status) => status.name === name);
  }

  async reaches(kind: ArtifactKind, name: string, state: string): Promise<ArtifactStatus> {
    await until(`${kind} ${name} to be ${state}`, () => this.status(kind, name)?.state === state, 10_000).catch(
      (error) => {
        throw new Error(`${error.message}: ${JSON.stringify(this.status(kind, name))}\n${this.logged}`);
      },
    );
    return this.status(kind, name) as ArtifactStatus;
  }

  /** Wants one model alone, and waits until it is here. */
  pulls(view = makeArtifact()): Promise<ArtifactStatus> {
    this.want('models', view);
    return this.reaches('models', view.name, 'Ready');
  }

  /** Wants one model alone, and waits for the error of its pull. */
  async failureOf(view = makeArtifact()): Promise<string | undefined> {
    this.want('models', view);
    return (await this.reaches('models', view.name, 'Failed')).lastError;
  }

  /** The files of a directory of this machine, through links, with their content. */
  files(...path: string[]): Record<string, string> {
    const root = join(this.folder, ...path);
    const found: Record<string, string> = {};
    const walk = (folder: string, prefix: string) => {
      for (const name of readdirSync(folder).sort()) {
        if (name.startsWith('.')) continue;
        const each = join(folder, name);
        if (lstatSync(each).isDirectory()) walk(each, `${prefix}${name}/`);
        else if (lstatSync(each).isSymbolicLink()) walk(each, `${prefix}${name}/`);
        else found[`${prefix}${name}`] = readFileSync(each, 'utf8');
      }
    };
    walk(root, '');
    return found;
  }

  /** The names of the contents in the store. */
  get blobs(): string[] {
    return readdirSync(join(this.folder, 'artifacts', 'blobs'));
  }

  /** Bytes of downloads that are not complete. */
  get received(): number {
    const folder = join(this.folder, 'artifacts', 'partial');
    const names = readdirSync(folder).filter((name) => !name.endsWith('.json'));
    return names.reduce((sum, name) => sum + (lstatSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

export function makeArtifact(change: Partial<ArtifactView> = {}): ArtifactView {
  return artifactViewSchema.parse({ uuid: randomUUID(), name: 'tiny', repo: 'team/tiny', registryId: 7, ...change });
}

/** A microservice that is to run, with a catalog of models unless the change says otherwise. */
export function bindingEntry(uuid: string, items: string[], change: Partial<MicroserviceView> = {}): Entry {
  const view = microserviceViewSchema.parse({
    ...{ uuid, name: 'web', application: 'shop', imageId: 'sample:1', registryId: 1 },
    ...(items.length > 0 && { models: { bindPath: '/models', items: items.map((name) => ({ name })) } }),
    ...change,
  });
  return { kind: 'run', uuid, view, digest: 'd' };
}

/** A running container that mounts directories. */
export function mountingContainer(uuid: string, ...sources: string[]): Container {
  const binds = sources.map((source) => ({ source, writable: false }));
  return { id: uuid, uuid, state: 'running', binds } as unknown as Container;
}
