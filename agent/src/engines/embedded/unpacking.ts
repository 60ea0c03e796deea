import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { EngineError } from '../../engine-port/error.ts';
import { readText, removeDurably, writeDurably } from '../../machine/disk.ts';
import type { Containerd } from './client.ts';
import { isCode } from './errors.ts';
import { SNAPSHOTTER } from './image-store.ts';
import { Turns } from './turns.ts';
import { CONTAINERD, SNAPSHOT_KINDS } from './wire/containerd.ts';

const execute = promisify(execFile);
/** ms: a slow disk may have much to write. */
const SYNC_LIMIT = 600_000;

/** The mark beside the data of containerd: the boot of the machine, and the layers that were on the disk then. */
interface Mark {
  boot: string;
  layers: readonly string[];
}

export interface UnpackingDependencies {
  containerd: Containerd;
  /** of containerd */
  root: string;
  bootId: string;
  /** Writes a file system to its disk. */
  sync?: (path: string) => Promise<void>;
}

interface Snapshot {
  name: string;
  parent: string;
  kind: number;
}

/**
 * containerd notes a layer as unpacked before the files of the layer are on the disk: after a power cut they are empty, and
 * containerd takes them for the layer forever. So what unpacks layers is followed by a sync, and a mark names the layers
 * that were synced before. In the next boot the others are removed, and containerd unpacks them again.
 */
export class Unpacking {
  readonly #containerd: Containerd;
  readonly #root: string;
  readonly #bootId: string;
  readonly #sync: (path: string) => Promise<void>;
  readonly #turns = new Turns();
  #running = 0;
  /** synced layers, while there is a mark */
  #synced: ReadonlySet<string> | undefined;

  constructor({ containerd, root, bootId, sync = syncFileSystem }: UnpackingDependencies) {
    this.#containerd = containerd;
    this.#root = root;
    this.#bootId = bootId;
    this.#sync = sync;
  }

  get #file(): string {
    return join(this.#root, 'unpacking.json');
  }

  /** Does what may unpack layers. When this returns, they are on the disk. */
  async during<T>(act: () => Promise<T>): Promise<T> {
    await this.#turns.take(() => this.#begin());
    try {
      return await act();
    } finally {
      await this.#turns.take(() => this.#end());
    }
  }

  /** Removes layers that a power cut may have emptied; to be called before anything is made from a layer. */
  recover(signal?: AbortSignal): Promise<void> {
    return this.#turns.take(async () => {
      const mark = readMark(this.#file);
      if (!mark || this.#running > 0) return;
      const synced = new Set(mark.layers);
      // In the same boot nothing is lost: what waits in memory is written now.
      if (mark.boot === this.#bootId) return this.#finish();
      for (const name of unsynced(await this.#list(signal), synced)) await this.#remove(name, signal);
      await this.#finish();
    });
  }

  async #begin(): Promise<void> {
    if (this.#synced === undefined) this.#mark(layersOf(await this.#list()));
    this.#running++;
  }

  /** A disk that refuses leaves the mark, for the next attempt or the next connection. */
  async #finish(): Promise<void> {
    try {
      const before = this.#synced;
      const layers = layersOf(await this.#list());
      if (!before || layers.some((name) => !before.has(name))) await this.#sync(this.#root);
      removeDurably(this.#file);
      this.#synced = undefined;
    } catch {
      // see above
    }
  }

  /** While others continue, the mark stays: their layers are none of those that it names. */
  async #end(): Promise<void> {
    this.#running--;
    if (this.#running === 0) await this.#finish();
    else await this.#sync(this.#root).catch(() => {});
  }

  #mark(layers: readonly string[]): void {
    try {
      writeDurably(this.#file, JSON.stringify({ boot: this.#bootId, layers } satisfies Mark));
    } catch (error) {
      const isFull = ['ENOSPC', 'EDQUOT'].includes((error as NodeJS.ErrnoException).code ?? '');
      throw new EngineError(isFull ? 'DiskFull' : 'Failed', `${this.#file}: ${(error as Error).message}`, {
        cause: error,
      });
    }
    this.#synced = new Set(layers);
  }

  async #list(signal?: AbortSignal): Promise<Snapshot[]> {
    const found: Snapshot[] = [];
    const request = { snapshotter: SNAPSHOTTER };
    for await (const { snapshots } of this.#containerd.exchange(CONTAINERD.listSnapshots, [request], {
      signal,
      deadline: 30_000,
    }))
      found.push(...snapshots);
    return found;
  }

  async #remove(key: string, signal?: AbortSignal): Promise<void> {
    try {
      await this.#containerd.call(CONTAINERD.removeSnapshot, { snapshotter: SNAPSHOTTER, key }, { signal });
    } catch (error) {
      // A layer that containerd refuses to remove does not keep the agent from all others.
      if (isCode(error, 'Unavailable')) throw error;
    }
  }
}

const layersOf = (snapshots: readonly Snapshot[]) =>
  snapshots.filter(({ kind }) => kind === SNAPSHOT_KINDS.committed).map(({ name }) => name);

/** The layers that were not synced, and what lies on them, which goes first. Pure. */
export function unsynced(snapshots: readonly Snapshot[], synced: ReadonlySet<string>): string[] {
  const parents = new Map(snapshots.map(({ name, parent }) => [name, parent]));
  const chains = snapshots.map(({ name }) => {
    const below = [name];
    for (let at = parents.get(name); at; at = parents.get(at)) below.push(at);
    return below;
  });
  const isLayer = new Set(layersOf(snapshots));
  return chains
    .filter((chain) => chain.some((name) => isLayer.has(name) && !synced.has(name)))
    .sort((a, b) => b.length - a.length)
    .map(([name = '']) => name);
}

/** The mark of a process that has ended; a damaged one says that no layer was synced, as a file of another form does. */
function readMark(file: string): Mark | undefined {
  const text = readText(file);
  if (text === undefined) return undefined;
  try {
    const { boot, layers } = JSON.parse(text) as Mark;
    if (Array.isArray(layers)) return { boot: String(boot), layers: layers.map(String) };
  } catch {
    // see above
  }
  return { boot: '', layers: [] };
}

async function syncFileSystem(path: string): Promise<void> {
  await execute('sync', ['--file-system', path], { timeout: SYNC_LIMIT });
}
