import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { isControlPlaneUuid } from '../../domain/local-uuid.ts';
import { isVolumeName, PRIVATE_FOLDER, SHARED_FOLDER, type VolumeKey, volumeSubpath } from '../../domain/volume.ts';
import { followLinks, listDirectory, renamePath } from '../../machine/disk.ts';
import {
  directoriesIn,
  isDirectory,
  namesIn,
  removeEmptyDirectory,
  removeWritableTree,
  syncDirectory,
  withDirectory,
  withDirectoryIfAny,
} from '../../machine/tree.ts';

/**
 * A volume on its way out has such a name, in the directory where it was, so that the move needs neither room on the disk nor
 * another file system. No volume can have it.
 */
const TAKEN = '.destroyed-';
/** Files and directories of one volume that are looked at before the others get their turn. */
const REMOVED_AT_ONCE = 10_000;
/** Directories that are worked on at the same time. */
const AT_ONCE = 16;

/** The directories of volumes as the disk has them: which there are is what the disk says, and nothing else. */
export class VolumeTree {
  /** without links: where the directory of volumes lies stays, and a link that takes its place later is not followed */
  readonly root: string;
  /** folders with volumes on their way out */
  readonly #unfinished = new Set<string>();
  /** removals, one after another */
  #removing: Promise<void> = Promise.resolve();

  constructor(directory: string) {
    this.root = followLinks(directory);
  }

  /** Where a volume lies, without links. */
  placeOf(key: VolumeKey): string {
    return join(this.root, volumeSubpath(key));
  }

  /** All volumes: private ones by uuid and name, then shared ones by name. */
  async list(): Promise<VolumeKey[]> {
    const uuids = (await directoriesIn(join(this.root, PRIVATE_FOLDER))).filter(isVolumeName).sort();
    const owned = await inTurns(uuids, async (uuid) => {
      const names = await this.#names(join(PRIVATE_FOLDER, uuid));
      return names.map((name): VolumeKey => ({ uuid, name }));
    });
    const shared = await this.#names(SHARED_FOLDER);
    return [...owned.flat(), ...shared.map((name): VolumeKey => ({ uuid: null, name }))];
  }

  /** The private volumes of a microservice. */
  async privateOf(uuid: string): Promise<VolumeKey[]> {
    return (await this.#names(join(PRIVATE_FOLDER, uuid))).map((name) => ({ uuid, name }));
  }

  /** Whether there are private volumes of a microservice; true where that cannot be known. */
  hasPrivate(uuid: string): boolean {
    try {
      return listDirectory(join(this.root, PRIVATE_FOLDER, uuid)).some(isVolumeName);
    } catch {
      return true;
    }
  }

  /** The control planes that have volumes, whether anything else is known of them or not; none where that cannot be known. */
  controlPlanes(): string[] {
    try {
      return listDirectory(join(this.root, PRIVATE_FOLDER)).filter(
        (uuid) => isControlPlaneUuid(uuid) && this.hasPrivate(uuid),
      );
    } catch {
      return [];
    }
  }

  async has(key: VolumeKey): Promise<boolean> {
    return isDirectory(this.placeOf(key));
  }

  async #names(folder: string): Promise<string[]> {
    const names = await directoriesIn(join(this.root, folder));
    if (names.some((name) => name.startsWith(TAKEN))) this.#unfinished.add(folder);
    return names.filter(isVolumeName).sort();
  }

  /**
   * Takes a volume out of use in one step: a directory that is made under its name afterwards is a new one. `decide` is asked at
   * the last moment, with nothing between its answer and the step; where it throws, nothing is done. No link is followed on
   * the way. Returns where the volume lies now.
   */
  async take(key: VolumeKey, decide: () => void): Promise<string> {
    const folder = folderOf(key);
    const taken = `${TAKEN}${randomBytes(8).toString('hex')}`;
    await this.#within(folder, (pinned) => {
      decide();
      renamePath(join(pinned, key.name), join(pinned, taken));
    });
    this.#unfinished.add(folder);
    return join(this.root, folder, taken);
  }

  /** Gives a volume that was taken its place back. */
  async giveBack(key: VolumeKey, taken: string): Promise<void> {
    const name = taken.slice(taken.lastIndexOf('/') + 1);
    await this.#within(folderOf(key), (pinned) => renamePath(join(pinned, name), join(pinned, key.name)));
  }

  async #within<T>(folder: string, act: (pinned: string) => T): Promise<T> {
    const steps = folder.split('/');
    const enter = async (path: string): Promise<T> => {
      const next = steps.shift();
      return next === undefined ? act(path) : withDirectory(join(path, next), enter);
    };
    return withDirectory(this.root, enter);
  }

  /** Whether something is on its way out. */
  get isUnfinished(): boolean {
    return this.#unfinished.size > 0;
  }

  /** Removes all that was taken, also by an earlier process. Throws the first error; the rest stays for another call. */
  removeTaken(): Promise<void> {
    const done = this.#removing.then(() => this.#removeAll());
    this.#removing = done.catch(() => {});
    return done;
  }

  async #removeAll(): Promise<void> {
    const errors: unknown[] = [];
    const folders = [...this.#unfinished];
    await inTurns(folders, async (folder) => {
      try {
        await this.#removeIn(folder, folders.length <= AT_ONCE);
        this.#unfinished.delete(folder);
      } catch (error) {
        errors.push(error);
      }
    });
    for (const top of new Set(folders.map((folder) => folder.split('/', 1)[0] ?? '')))
      await withDirectoryIfAny(join(this.root, top), syncDirectory);
    if (errors.length > 0) throw errors[0];
  }

  /** `isDurable`: what was moved and removed rests on the disk afterwards; of many the last one brings the others with it. */
  async #removeIn(folder: string, isDurable: boolean): Promise<void> {
    const [top = '', uuid] = folder.split('/');
    await withDirectoryIfAny(join(this.root, top), async (pinned) => {
      if (uuid === undefined) return removeTakenIn(pinned);
      await withDirectoryIfAny(join(pinned, uuid), async (own) => {
        await removeTakenIn(own);
        if (isDurable) await syncDirectory(own);
      });
      // A microservice without volumes has no directory.
      await removeEmptyDirectory(join(pinned, uuid));
    });
  }
}

/** The directory of a volume's siblings, below the directory of volumes. */
function folderOf({ uuid }: VolumeKey): string {
  return uuid === null ? SHARED_FOLDER : join(PRIVATE_FOLDER, uuid);
}

async function removeTakenIn(pinned: string): Promise<void> {
  for (let before: string[] = []; ; ) {
    const left = (await namesIn(pinned)).filter((name) => name.startsWith(TAKEN));
    if (left.length === 0) return;
    const counts = await inTurns(left, (name) => removeWritableTree(join(pinned, name), REMOVED_AT_ONCE, TAKEN));
    const looked = counts.reduce((sum, count) => sum + count, 0);
    // Directories without content that cannot be removed are the only ones that a look does not make fewer.
    if (looked <= left.length && left.every((name, index) => name === before[index]))
      throw new Error(`${left.length} directories cannot be removed`);
    before = left;
  }
}

/** Does something with each of many, some at the same time; the results are in their order. */
async function inTurns<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(act))));
  return results;
}
