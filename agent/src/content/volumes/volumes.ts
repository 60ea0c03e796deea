import { type Clock, sleep } from '../../../../src/lib/clock.ts';
import type { Log } from '../../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import { AgentError, notSaved } from '../../domain/agent-error.ts';
import type { Entry } from '../../domain/entry.ts';
import type { Observed, Part } from '../../domain/part.ts';
import type { PathFacts } from '../../domain/policy.ts';
import {
  isVolumeName,
  type PrunedVolume,
  type VolumeClaim,
  type VolumeConsumer,
  type VolumeKey,
  type VolumePruneReport,
  volumeSubpath,
} from '../../domain/volume.ts';
import type { BindsPort } from '../../engine-port/ownership.ts';
import { errorText } from '../../machine/log.ts';
import type { MountInUse } from '../../machine/mounts.ts';
import type { Database } from '../../state/database.ts';
import { CountedTime } from './counted-time.ts';
import { createMountIndex, type Use } from './mount-index.ts';
import { claimOf, destroyRefusal, type VolumeFacts } from './rules.ts';
import {
  graceLeft,
  readUnreferenced,
  type Unreferenced,
  type UnreferencedRecords,
  unreferencedText,
  updateUnreferenced,
} from './unreferenced.ts';
import { VolumeLock } from './volume-lock.ts';
import { VolumeTree } from './volume-tree.ts';
import { isWanted, type VolumePath, type WantedVolumes, wantedFolders, wantedVolumes } from './wanted.ts';

/** How often the counted time is saved while something waits for it, and what could not be removed is tried again, ms. */
const LOOK_EVERY = 600_000;

export interface VolumesDependencies {
  /** the directory of volumes */
  directory: string;
  database: Pick<Database, 'value' | 'saveValue'>;
  clock: Clock;
  log: Log;
  observed: Pick<Observed, 'desired' | 'knowsAll' | 'record'>;
  /** views as they were sent, or deployed on the machine, by microservice */
  views(): ReadonlyMap<string, MicroserviceView>;
  /** who wants a microservice: a controller, or the machine itself */
  sourceOf(uuid: string): VolumeConsumer['source'];
  engine: BindsPort;
  places: Pick<PathFacts, 'follow' | 'locate' | 'mountsBelow'>;
  /** the mounts of this machine, in whatever namespace */
  mountsInUse(): readonly MountInUse[];
  /** whether a microservice is of the control plane that runs here */
  isControlPlane(uuid: string): boolean;
}

/**
 * The volumes of this machine as claims: the disk says which there are, the desired state who wants them. Since when
 * nothing wants a volume is noted in the database, a cache: a note that is lost begins anew.
 *
 * Guarantees: a volume that is wanted, mounted or younger than its grace is destroyed by nothing but a person who says force,
 * and a mounted volume by nothing at all; a volume is there as a whole or not at all, whenever the process ends.
 */
export class Volumes implements Part<never> {
  readonly #deps: VolumesDependencies;
  readonly #tree: VolumeTree;
  readonly #lock = new VolumeLock();
  readonly #time: CountedTime;
  #records: UnreferencedRecords;
  /** what the database has */
  #saved: UnreferencedRecords;
  /** that the disk had at the last look */
  #volumes: readonly VolumePath[] = [];
  /** folders that were wanted when that was known last */
  #folders: readonly string[] = [];
  #wanted: { entries: readonly Entry[] | undefined; volumes: WantedVolumes | undefined } | undefined;
  /** why what was destroyed cannot be removed, or notes cannot be saved */
  #problem = '';

  constructor(deps: VolumesDependencies) {
    const { directory, database, clock } = deps;
    this.#deps = deps;
    this.#tree = new VolumeTree(directory);
    this.#time = new CountedTime(database.value('countedTime'), clock);
    this.#records = readUnreferenced(database.value('unreferencedVolumes'));
    this.#saved = this.#records;
  }

  get problems(): string[] {
    return this.#problem ? [`volumes: ${this.#problem}`] : [];
  }

  /** Makes a container, while no volume is being destroyed. */
  whileVolumesStay<T>(make: () => Promise<T>): Promise<T> {
    return this.#lock.whileMaking(make);
  }

  look(): void {
    const before = this.#folders;
    this.#update(this.#volumes, false);
    // The time of volumes that were made meanwhile begins now, and not when somebody asks.
    if (before.some((folder) => !isWanted(folder, this.#wantedNow())))
      this.#list().catch((error: unknown) => this.#note(error));
  }

  /** Finishes what an earlier process has begun to destroy, and keeps the counted time. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#list().catch((error: unknown) => this.#note(error));
      await this.#tree.removeTaken().catch((error: unknown) => this.#note(error));
      await sleep(LOOK_EVERY, signal, this.#deps.clock);
      this.look();
      this.#save();
    }
  }

  /** All claims: private ones by uuid and name, then shared ones by name. */
  async list(): Promise<VolumeClaim[]> {
    return (await this.#list()).map((key) => this.#claim(key));
  }

  /** Whether the disk has private volumes of a microservice; true where that cannot be known. */
  hasPrivate(uuid: string): boolean {
    return this.#tree.hasPrivate(uuid);
  }

  /** The claim of a shared volume; undefined where there is none. */
  async shared(name: string): Promise<VolumeClaim | undefined> {
    const key = { uuid: null, name };
    if (!isVolumeName(name) || !(await this.#tree.has(key))) return undefined;
    this.#update([volumeSubpath(key)], false);
    return this.#claim(key);
  }

  /** Destroys the private volumes of a microservice, or one of them; all or none. Returns their names. Throws AgentError. */
  async destroyPrivate(uuid: string, name: string | undefined, force: boolean): Promise<string[]> {
    for (const each of [uuid, name ?? uuid])
      if (!isVolumeName(each))
        throw new AgentError('INVALID_ARGUMENT', `"${each}" cannot be a part of a volume's path`);
    const all = await this.#tree.privateOf(uuid);
    const keys = name === undefined ? all : all.filter((key) => key.name === name);
    if (keys.length === 0)
      throw new AgentError(
        'NOT_FOUND',
        name === undefined ? `${uuid} has no private volume here` : `${uuid} has no private volume ${name} here`,
      );
    await this.#destroy(keys, force);
    return keys.map((key) => key.name);
  }

  /** Destroys the volumes of a control plane that was removed. Throws AgentError, and destroys none, while one is in use. */
  async destroyOfControlPlane(uuid: string): Promise<void> {
    await this.#destroy(await this.#tree.privateOf(uuid), false, 'controlPlane');
  }

  /** Destroys a shared volume. Throws AgentError. */
  async destroyShared(name: string, force: boolean): Promise<void> {
    if (!isVolumeName(name)) throw new AgentError('INVALID_ARGUMENT', `"${name}" cannot be the name of a volume`);
    const key = { uuid: null, name };
    if (!(await this.#tree.has(key))) throw new AgentError('NOT_FOUND', `there is no shared volume ${name} here`);
    await this.#destroy([key], force);
  }

  /** Destroys the volumes that nothing has wanted for the grace; without `confirmed` it says which these are. */
  async prune({ yes, force, dryRun }: Pick<VolumePruneReport, 'yes' | 'force' | 'dryRun'>): Promise<VolumePruneReport> {
    const flags = { orphans: true as const, yes, force, dryRun };
    return { ...flags, ...(await this.#sweep('prune', force, !yes || dryRun)) };
  }

  /** Destroys the volumes of workloads that nothing wants, whatever their age. */
  async purge(): Promise<Pick<VolumePruneReport, 'status' | 'deleted' | 'skipped'>> {
    const { status, deleted, skipped } = await this.#sweep('purge', false, false);
    return { status, deleted, skipped };
  }

  /**
   * Notes that a person removed a microservice and its volumes with it: a prune need not wait for those that are there. Returns
   * false, and notes nothing, while it is still wanted. Throws AgentError when that cannot be saved.
   */
  async markForCleanup(uuid: string): Promise<boolean> {
    const paths = isVolumeName(uuid) ? (await this.#tree.privateOf(uuid)).map(volumeSubpath) : [];
    this.#update(paths, false);
    if (isWanted(`data/${uuid}`, this.#wantedNow())) return false;
    const marked = paths.flatMap((path): [VolumePath, Unreferenced][] => {
      const record = this.#records.get(path);
      return record ? [[path, { ...record, cleanup: true }]] : [];
    });
    this.#records = new Map([...this.#records, ...marked]);
    this.#save();
    if (this.#saved !== this.#records) throw notSaved('its volumes keep their grace', this.#problem);
    return true;
  }

  #claim(key: VolumeKey): VolumeClaim {
    const { isControlPlane } = this.#deps;
    const facts = { wanted: this.#wantedNow(), records: this.#records, isControlPlane };
    return claimOf(key, this.#tree.placeOf(key), facts);
  }

  /** The volumes of the disk; new ones are noted. */
  async #list(): Promise<VolumeKey[]> {
    const keys = await this.#tree.list();
    this.#volumes = keys.map(volumeSubpath);
    this.#update(this.#volumes, true);
    return keys;
  }

  /** The volumes that are wanted at this moment. */
  #wantedNow(): WantedVolumes | undefined {
    const { observed, sourceOf } = this.#deps;
    const entries = observed.knowsAll ? observed.desired : undefined;
    if (this.#wanted?.entries !== entries || !this.#wanted) {
      const known = this.#deps.views();
      const views = (uuid: string) =>
        [known.get(uuid), observed.record(uuid)?.lastGood].filter((view) => view !== undefined);
      this.#wanted = { entries, volumes: wantedVolumes(entries, { views, sourceOf }) };
    }
    return this.#wanted.volumes;
  }

  #update(volumes: Iterable<VolumePath>, isComplete: boolean): void {
    const { clock } = this.#deps;
    // What a microservice ran with last may have changed since.
    this.#wanted = undefined;
    const wanted = this.#wantedNow();
    const now = this.#time.advance(wanted !== undefined);
    this.#records = updateUnreferenced(this.#records, { volumes, isComplete, wanted, now, wall: clock.wall() });
    if (wanted) this.#folders = wantedFolders(wanted);
    if (this.#records !== this.#saved) this.#save();
  }

  /** Whether counted time changes something. */
  #isWaiting(): boolean {
    const now = this.#time.advance(this.#wantedNow() !== undefined);
    return [...this.#records.values()].some((record) => graceLeft(record, now) !== undefined);
  }

  /** Saves the notes, and the time by which they count. */
  #save(): void {
    const { database } = this.#deps;
    const records = this.#records;
    // Nothing is written to the disk while nothing changes.
    if (records === this.#saved && !this.#isWaiting()) return;
    try {
      // First: notes are never ahead of a time that was saved, or they would begin anew.
      database.saveValue('countedTime', String(Math.ceil(this.#time.advance(this.#wantedNow() !== undefined))));
      if (records !== this.#saved)
        database.saveValue('unreferencedVolumes', records.size > 0 ? unreferencedText(records) : undefined);
      this.#saved = records;
      this.#problem = '';
    } catch (error) {
      this.#note(error);
    }
  }

  #note(error: unknown): void {
    const text = errorText(error);
    if (text !== this.#problem) this.#deps.log.warn({ error: text }, 'Volumes cannot be looked after');
    this.#problem = text;
  }

  async #destroy(
    keys: readonly VolumeKey[],
    force: boolean,
    way: 'destroy' | 'controlPlane' = 'destroy',
  ): Promise<void> {
    const failed = await this.#lock.whileDestroying(async () => {
      const mountedBy = await this.#mounts(keys);
      const refusal = (key: VolumeKey) => destroyRefusal(way, key, this.#facts(mountedBy), force);
      for (const key of keys) {
        const refused = refusal(key);
        if (refused) throw new AgentError('CONFLICT', `nothing was destroyed: ${nameText(key)}: ${refused}`);
      }
      return this.#takeAll(keys, refusal);
    });
    await this.#finish();
    const [error] = failed.values();
    if (error) throw error;
  }

  async #sweep(way: 'purge' | 'prune', force: boolean, isDry: boolean): Promise<Swept> {
    if (!this.#wantedNow()) throw new AgentError('CONFLICT', `nothing was destroyed: ${UNKNOWN}`);
    const keys = (await this.#list()).filter((key) => !isWanted(volumeSubpath(key), this.#wantedNow()));
    const work = async (): Promise<Swept> => {
      const mountedBy = await this.#mounts(keys);
      const refusal = (key: VolumeKey) => destroyRefusal(way, key, this.#facts(mountedBy), force);
      const judged = keys.map((key) => ({ key, item: this.#pruned(key), reason: refusal(key) }));
      const due = judged.filter(({ reason }) => reason === undefined);
      const failed = isDry
        ? new Map<VolumeKey, AgentError>()
        : await this.#takeAll(
            due.map(({ key }) => key),
            refusal,
          );
      const skipped = judged.flatMap(({ key, item, reason = failed.get(key)?.message }) =>
        reason === undefined ? [] : [{ ...item, reason }],
      );
      return {
        status: failed.size > 0 ? 'partial' : 'ok',
        candidates: due.map(({ item }) => item),
        deleted: isDry ? [] : due.filter(({ key }) => !failed.has(key)).map(({ item }) => item),
        skipped,
      };
    };
    if (isDry) return work();
    const swept = await this.#lock.whileDestroying(work);
    await this.#finish();
    return swept;
  }

  #pruned(key: VolumeKey): PrunedVolume {
    const { consumers, desired, ...item } = this.#claim(key);
    return item;
  }

  #facts(mountedBy: VolumeFacts['mountedBy']): VolumeFacts {
    const wanted = this.#wantedNow();
    const { isControlPlane } = this.#deps;
    return { wanted, records: this.#records, now: this.#time.advance(wanted !== undefined), mountedBy, isControlPlane };
  }

  /** Takes volumes out of use, each of them as long as nothing refuses it; returns why others stay. */
  async #takeAll(
    keys: readonly VolumeKey[],
    refusal: (key: VolumeKey) => string | undefined,
  ): Promise<Map<VolumeKey, AgentError>> {
    const { log } = this.#deps;
    const failed = new Map<VolumeKey, AgentError>();
    const taken: { key: VolumeKey; at: string }[] = [];
    const decide = (key: VolumeKey) => {
      const refused = refusal(key);
      if (refused) throw new AgentError('CONFLICT', `nothing was destroyed: ${nameText(key)}: ${refused}`);
    };
    for (const [key, outcome] of await this.#tree.take(keys, decide))
      if ('at' in outcome) taken.push({ key, at: outcome.at });
      else failed.set(key, destroyError(key, outcome.error));
    // A program that mounted one at that moment has it mounted where it lies now.
    const mountedBy = createMountIndex(this.#mountUses());
    const places = this.#locate(taken.map(({ at }) => at));
    for (const [index, { key, at }] of taken.entries()) {
      const by = mountedBy(at, 0) ?? mountedBy(places[index] ?? at, 0);
      if (by === undefined) continue;
      await this.#tree.giveBack(key, at);
      failed.set(key, new AgentError('CONFLICT', `nothing was destroyed: ${nameText(key)}: it is mounted by ${by}`));
    }
    const gone = taken.filter(({ key }) => !failed.has(key)).map(({ key }) => volumeSubpath(key));
    if (gone.length > 0) log.info({ volumes: gone.slice(0, 100), count: gone.length }, 'Volumes are destroyed');
    return failed;
  }

  /** Removes what was taken out of use, and forgets it. */
  async #finish(): Promise<void> {
    try {
      await this.#tree.removeTaken();
    } catch (error) {
      this.#note(error);
      throw new AgentError(
        'UNAVAILABLE',
        `the volumes are out of use, but not all that was in them could be removed: ${errorText(error)}. The agent tries it again`,
        { cause: error },
      );
    } finally {
      await this.#list();
    }
  }

  /** Who has volumes mounted: a container of the engine, of whatever program and state, or any process of the machine. */
  async #mounts(keys: readonly VolumeKey[]): Promise<VolumeFacts['mountedBy']> {
    const { engine, places } = this.#deps;
    const binds = await engine.allBinds().catch((error: unknown) => {
      throw new AgentError(
        'UNAVAILABLE',
        `nothing was destroyed: which containers have volumes mounted cannot be told: ${errorText(error)}`,
        { cause: error },
      );
    });
    const sources = binds.map(({ source }) => this.#follow(source));
    const located = places.locate(sources);
    const containers = binds.flatMap(({ container }, index): Use[] => {
      const by = `the container ${container}`;
      return [sources[index], located[index]].flatMap((at) => (at === undefined ? [] : [{ at, by, isWhole: true }]));
    });
    const find = createMountIndex([...containers, ...this.#mountUses()]);
    const paths = keys.map((key) => this.#tree.placeOf(key));
    const lies = new Map(this.#locate(paths).map((place, index) => [keys[index], place]));
    return (key) => {
      const levels = volumeSubpath(key).split('/').length;
      const path = this.#tree.placeOf(key);
      return find(path, levels) ?? find(lies.get(key) ?? path, levels);
    };
  }

  /** Where volumes lie in their file systems; many are located at once where nothing is mounted among them. */
  #locate(paths: readonly string[]): string[] {
    const { places } = this.#deps;
    const { root } = this.#tree;
    if (places.mountsBelow(root).length > 0) return places.locate(paths);
    const [place = root] = places.locate([root]);
    return paths.map((path) => place + path.slice(root.length));
  }

  #mountUses(): Use[] {
    return this.#deps
      .mountsInUse()
      .flatMap(({ place, point, by }) => [
        { at: place, by, isWhole: false },
        ...(point === undefined ? [] : [{ at: point, by, isWhole: false }]),
      ]);
  }

  #follow(source: string): string {
    try {
      return this.#deps.places.follow(source);
    } catch {
      // It leads nowhere, and so to no volume.
      return source;
    }
  }
}

type Swept = Pick<VolumePruneReport, 'status' | 'candidates' | 'deleted' | 'skipped'>;

const UNKNOWN = 'the desired state of this machine is not known, so every volume counts as wanted';

const nameText = ({ uuid, name }: VolumeKey): string =>
  uuid === null ? `shared volume ${name}` : `volume ${name} of ${uuid}`;

/** Errors of the disk that say something about the volume itself. */
const DISK_ERRORS: Readonly<Record<string, [AgentError['code'], string]>> = {
  ENOENT: ['NOT_FOUND', 'it is not there any more'],
  ELOOP: ['CONFLICT', 'a link is on the way to it, and no link is followed'],
  ENOTDIR: ['CONFLICT', 'something that is no directory is on the way to it'],
  EBUSY: ['CONFLICT', 'something is mounted there'],
};

function destroyError(key: VolumeKey, error: unknown): AgentError {
  if (error instanceof AgentError) return error;
  const { code = '' } = error as NodeJS.ErrnoException;
  const [kind, text] = DISK_ERRORS[code] ?? (['UNAVAILABLE', `the disk refuses it: ${errorText(error)}`] as const);
  return new AgentError(kind, `nothing was destroyed: ${nameText(key)}: ${text}`, { cause: error });
}
