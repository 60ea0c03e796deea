import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { silentLog } from '../../../../src/lib/log.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import type { Entry } from '../../domain/entry.ts';
import type { MicroserviceRecord } from '../../domain/record.ts';
import { type VolumeKey, volumeSubpath } from '../../domain/volume.ts';
import { followLinks, locate, mountsBelow } from '../../machine/disk.ts';
import type { MountInUse } from '../../machine/mounts.ts';
import { memoryDatabase } from '../../state/database.ts';
import { makeEntry } from '../../supervise/plan/_util.ts';
import { Volumes } from './volumes.ts';

export const HOUR = 3600_000;

/** The entry of a microservice that has these volumes; a name that begins with `+` is a shared one. */
export const having = (uuid: string, ...names: string[]): Entry =>
  makeEntry({
    uuid,
    volumeMappings: names.map((name, index) => ({
      type: 'volume',
      scope: name.startsWith('+') ? 'shared' : 'private',
      hostDestination: name.replace('+', ''),
      containerDestination: `/v${index}`,
      accessMode: 'rw',
    })),
  });

/** A machine with volumes on a real disk; desired state, mounts and clocks are the test's. */
export class VolumeMachine {
  readonly folder: string;
  readonly directory: string;
  database = memoryDatabase();
  /** steady, ms */
  now = 1_000_000;
  wall = Date.parse('2026-01-01T00:00:00Z');
  /** the desired state; undefined while it is not known */
  desired: Entry[] | undefined = [];
  readonly lastGood = new Map<string, Pick<MicroserviceRecord, 'lastGood'>>();
  /** what containers bind, by their names */
  readonly binds = new Map<string, string>();
  mounts: MountInUse[] = [];
  controlPlane = '';
  /** of the engine; undefined while it answers */
  engineError: Error | undefined;
  /** calls of the engine, reads of the mounts, and writes of the database */
  readonly counted = { engine: 0, mounts: 0, writes: 0 };
  volumes: Volumes;

  constructor(folder = temporaryFolder()) {
    this.folder = folder;
    this.directory = join(folder, 'volumes');
    this.volumes = this.#start();
  }

  #start(): Volumes {
    const { database } = this;
    return new Volumes({
      directory: this.directory,
      database: {
        value: (name) => database.value(name),
        saveValue: (name, value) => {
          this.counted.writes++;
          database.saveValue(name, value);
        },
      },
      clock: { now: () => this.now, wall: () => this.wall, after: (_ms, callback) => this.#sleep(callback) },
      log: silentLog,
      observed: this.#observed(),
      views: () => new Map(),
      sourceOf: () => 'managed' as const,
      engine: {
        allBinds: async () => {
          this.counted.engine++;
          if (this.engineError) throw this.engineError;
          return [...this.binds].map(([container, source]) => ({ container, source }));
        },
      },
      places: { follow: followLinks, locate, mountsBelow },
      mountsInUse: () => {
        this.counted.mounts++;
        return this.mounts;
      },
      isControlPlane: (uuid) => uuid === this.controlPlane,
    });
  }

  #observed() {
    const desired = () => this.desired;
    const record = (uuid: string) => this.lastGood.get(uuid);
    return {
      get desired() {
        return desired() ?? [];
      },
      get knowsAll() {
        return desired() !== undefined;
      },
      record,
    };
  }

  #sleeper = Promise.withResolvers<() => void>();

  #sleep(callback: () => void): () => void {
    this.#sleeper.resolve(callback);
    return () => {};
  }

  /** Resolves when the part sleeps. */
  async sleeps(): Promise<void> {
    await this.#sleeper.promise;
  }

  /** Ends the sleep of the part. */
  async wake(): Promise<void> {
    const { promise } = this.#sleeper;
    this.#sleeper = Promise.withResolvers();
    (await promise)();
  }

  /** The agent starts again; the steady clock is another one. */
  restart(now = this.now): void {
    this.now = now;
    this.volumes = this.#start();
    this.volumes.look();
  }

  /** The desired state is now this. */
  want(...entries: Entry[]): void {
    this.desired = entries;
    this.volumes.look();
  }

  pathOf(key: VolumeKey): string {
    return join(this.directory, volumeSubpath(key));
  }

  /** Makes a volume, and a file in it. */
  make(uuid: string | null, name: string): string {
    const path = this.pathOf({ uuid, name });
    mkdirSync(join(path, 'deep/er'), { recursive: true });
    writeFileSync(join(path, 'deep/er/file'), 'precious');
    return path;
  }

  has(uuid: string | null, name: string): boolean {
    return existsSync(join(this.pathOf({ uuid, name }), 'deep/er/file'));
  }
}
