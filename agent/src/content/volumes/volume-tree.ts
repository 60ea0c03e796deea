import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
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

  async has(key: VolumeKey): Promise<boolean> {
    return isDirectory(this.placeOf(key));
  }

  async #names(folder: string): Promise<string[]> {
    const names = await directoriesIn(join(this.root, folder));
    if (names.some((name) => name.startsWith(TAKEN))) this.#unfinished.add(folder);
    return names.filter(isVolumeName).sort();
  }

  /**
   * Takes volumes out of use, each in one step: a directory that is made under its name afterwards is a new one. `decide` is asked at
   * the last moment, with nothing between its answer and the step; where it throws, nothing is done. No link is followed on
   * the way. Returns where each volume lies now, or why it stays.
   */
  async take(keys: readonly VolumeKey[], decide: (key: VolumeKey) => void): Promise<Map<VolumeKey, TakenVolume>> {
    const outcomes = new Map<VolumeKey, TakenVolume>();
    const takeIn = (own: string, key: VolumeKey) => {
      const taken = `${TAKEN}${randomBytes(8).toString('hex')}`;
      decide(key);
      renamePath(join(own, key.name), join(own, taken));
      this.#unfinished.add(folderOf(key));
      return { at: join(this.root, folderOf(key), taken) };
    };
    for (const [top, inTop] of Map.groupBy(keys, topOf))
      await settle(inTop, outcomes, () =>
        // Opened once for all: most of the work is to open directories.
        this.#withTop(top, async (pinned) => {
          await inTurns(bunches(inTop), (bunch) =>
            settle(bunch, outcomes, () =>
              withDirectory(ownIn(pinned, bunch[0]), async (own) => {
                for (const key of bunch) await settle([key], outcomes, async () => outcomes.set(key, takeIn(own, key)));
              }),
            ),
          );
        }),
      );
    return outcomes;
  }

  /** Gives a volume that was taken its place back. */
  async giveBack(key: VolumeKey, taken: string): Promise<void> {
    const name = taken.slice(taken.lastIndexOf('/') + 1);
    await this.#withTop(topOf(key), (pinned) =>
      withDirectory(ownIn(pinned, key), async (own) => renamePath(join(own, name), join(own, key.name))),
    );
  }

  #withTop<T>(top: string, act: (pinned: string) => Promise<T>): Promise<T> {
    return withDirectory(this.root, (root) => withDirectory(join(root, top), act));
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
    const tryTo = (act: () => Promise<unknown>) => act().catch((error: unknown) => errors.push(error));
    for (const [top, inTop] of Map.groupBy(folders, (folder) => folder.split('/', 1)[0] ?? ''))
      await tryTo(async () => {
        const isThere = await withDirectoryIfAny(join(this.root, top), async (pinned) => {
          await inTurns(inTop, (folder) =>
            tryTo(async () => {
              await removeIn(pinned, folder, folders.length <= AT_ONCE);
              this.#unfinished.delete(folder);
            }),
          );
          await syncDirectory(pinned);
          return true;
        });
        if (!isThere) for (const folder of inTop) this.#unfinished.delete(folder);
      });
    if (errors.length > 0) throw errors[0];
  }
}

/** Where a volume that was taken out of use lies now, or the reason why it stays. */
export type TakenVolume = { at: string } | { error: unknown };

/**
 * Removes what was taken in a folder. `isDurable`: what was moved and removed rests on the disk afterwards; of many the last one
 * brings the others with it.
 */
async function removeIn(top: string, folder: string, isDurable: boolean): Promise<void> {
  const [, uuid] = folder.split('/');
  if (uuid === undefined) return removeTakenIn(top);
  await withDirectoryIfAny(join(top, uuid), async (own) => {
    await removeTakenIn(own);
    if (isDurable) await syncDirectory(own);
  });
  // A microservice without volumes has no directory.
  await removeEmptyDirectory(join(top, uuid));
}

/** Does something for volumes; those of them without an outcome get its error. */
async function settle(
  keys: readonly VolumeKey[],
  outcomes: Map<VolumeKey, TakenVolume>,
  act: () => Promise<unknown>,
): Promise<void> {
  await act().catch((error: unknown) => {
    for (const key of keys) if (!outcomes.has(key)) outcomes.set(key, { error });
  });
}

const topOf = ({ uuid }: VolumeKey) => (uuid === null ? SHARED_FOLDER : PRIVATE_FOLDER);

/** The directory of a volume's siblings, in an opened folder of all. */
const ownIn = (top: string, key: VolumeKey | undefined) => `${top}/${key?.uuid ?? '.'}`;

/** Volumes by the directory that they lie in, few of them together: the steps of one bunch let nothing else have a turn. */
function bunches(keys: readonly VolumeKey[]): VolumeKey[][] {
  return [...Map.groupBy(keys, folderOf).values()].flatMap((siblings) =>
    Array.from({ length: Math.ceil(siblings.length / AT_ONCE) }, (_, n) =>
      siblings.slice(n * AT_ONCE, (n + 1) * AT_ONCE),
    ),
  );
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
