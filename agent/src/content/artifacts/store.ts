import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { canonicalJson } from '../../../../src/wire/digest.ts';
import { ARTIFACT_KINDS, NOTHING_SWEPT, type SweptContents } from '../../domain/artifact.ts';
import { fileSize, readText, removePath, writeDurably } from '../../machine/disk.ts';
import { giveTo, makeDirectories, moveDurably, namesIn, statOf } from '../../machine/tree.ts';
import { type ArtifactKey, type ArtifactRecord, artifactKey, type RecordFile, recordSchema } from './record.ts';

/**
 * The content of artifacts on this machine, once each.
 *
 *     blobs/<sha256>               content, complete and checked; never changed
 *     partial/<id>, <id>.json      a download, and what its source said of it
 *     <kind>/<uuid>.json           record of an artifact, written once all of its files are there
 *
 * Guarantee: a process that ends at any moment leaves of each artifact its old record or its new one, with all of its
 * files. What no record names is removed by `sweep`.
 */
export class ArtifactStore {
  readonly #directory: string;

  constructor(directory: string) {
    this.#directory = directory;
  }

  /** The records of all artifacts; one that cannot be read, or whose files are not there, counts as absent. */
  async open(): Promise<Map<ArtifactKey, ArtifactRecord>> {
    const records = new Map<ArtifactKey, ArtifactRecord>();
    for (const folder of ['blobs', 'partial', ...ARTIFACT_KINDS]) await makeDirectories(this.#path(folder), 0o700);
    for (const kind of ARTIFACT_KINDS)
      for (const name of await namesIn(this.#path(kind))) {
        const record = readRecord(this.#path(kind, name));
        if (record && `${record.uuid}.json` === name && (await this.#isComplete(record)))
          records.set(artifactKey(record), record);
        else removePath(this.#path(kind, name));
      }
    return records;
  }

  async #isComplete({ files }: ArtifactRecord): Promise<boolean> {
    for (const { sha256, size } of files) if ((await this.sizeOf(sha256)) !== size) return false;
    return true;
  }

  save(record: ArtifactRecord): void {
    writeDurably(this.#path(record.kind, `${record.uuid}.json`), JSON.stringify(record));
  }

  forget({ kind, uuid }: Pick<ArtifactRecord, 'kind' | 'uuid'>): void {
    removePath(this.#path(kind, `${uuid}.json`));
  }

  blob(sha256: string): string {
    return this.#path('blobs', sha256);
  }

  /** Bytes of a content; undefined when it is not there. */
  async sizeOf(sha256: string): Promise<number | undefined> {
    return (await statOf(this.blob(sha256)))?.size;
  }

  /** The download of what a source names so. */
  partial(identity: string): Partial {
    const id = createHash('sha256').update(identity).digest('hex').slice(0, 32);
    return new Partial(this.#path('partial', id), (from, sha256) => this.#take(from, sha256));
  }

  /** Makes a complete and checked file a content of the store. */
  async #take(from: string, sha256: string): Promise<void> {
    await giveTo(from, 0o444, undefined);
    await moveDurably(from, this.blob(sha256));
  }

  /**
   * Removes contents that no record names, and downloads. What belongs to an artifact that is not complete yet is kept
   * where `isPending` says that its owner still is, and so is what `isClaimed` by a pull that is under way. Answers what
   * it removed.
   */
  async sweep(
    records: Iterable<ArtifactRecord>,
    { isPending, isClaimed }: { isPending(owner: string): boolean; isClaimed(sha256: string): boolean },
  ): Promise<SweptContents> {
    const swept = { ...NOTHING_SWEPT };
    const kept = new Set<string>();
    for (const id of new Set((await namesIn(this.#path('partial'))).map((name) => name.replace(/\.json$/, '')))) {
      const partial = new Partial(this.#path('partial', id), async () => {});
      const { note } = partial;
      if (!isPending(note?.owner ?? '')) {
        swept.bytes += partial.size;
        swept.downloads++;
        partial.discard();
      } else if (note?.sha256) kept.add(note.sha256);
    }
    const blobs = await namesIn(this.#path('blobs'));
    // The records are read after the last wait: a pull that ended meanwhile claims nothing any more, and has its record. And no
    // pull can claim a content between the question and its removal.
    for (const { files } of records) for (const { sha256 } of files) kept.add(sha256);
    for (const name of blobs) {
      if (kept.has(name) || isClaimed(name)) continue;
      swept.bytes += fileSize(this.blob(name));
      swept.blobs++;
      removePath(this.blob(name));
    }
    return swept;
  }

  #path(...names: string[]): string {
    return join(this.#directory, ...names);
  }
}

interface PartialNote {
  owner: string;
  validator?: string;
  sha256?: string;
}

/** A file that is not complete yet. It survives a restart, so that its download goes on where it ended. */
export class Partial {
  readonly path: string;
  readonly #take: (path: string, sha256: string) => Promise<void>;

  constructor(path: string, take: (path: string, sha256: string) => Promise<void>) {
    this.path = path;
    this.#take = take;
  }

  get size(): number {
    return fileSize(this.path);
  }

  /** For which artifact the download began, what its source said then, and what came of it. */
  get note(): PartialNote | undefined {
    try {
      return JSON.parse(readText(`${this.path}.json`) ?? '');
    } catch {
      return undefined;
    }
  }

  begin(note: PartialNote): void {
    writeDurably(`${this.path}.json`, JSON.stringify(note));
  }

  /** The content moves to the store; its note keeps it there until the artifact is complete. */
  async finish(note: PartialNote & { sha256: string }): Promise<void> {
    this.begin(note);
    await this.#take(this.path, note.sha256);
  }

  discard(): void {
    removePath(this.path);
    removePath(`${this.path}.json`);
  }
}

/** The digest of a content: what is at which path. */
export function contentDigest(files: readonly RecordFile[]): string {
  const form = files.map(({ path, sha256 }) => [path, sha256]).sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
  return `sha256:${createHash('sha256').update(canonicalJson(form)).digest('hex')}`;
}

function readRecord(path: string): ArtifactRecord | undefined {
  try {
    return recordSchema.parse(JSON.parse(readText(path) ?? ''));
  } catch {
    return undefined;
  }
}
