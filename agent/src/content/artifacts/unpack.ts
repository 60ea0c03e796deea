import { createHash } from 'node:crypto';
import { readTar, type TarEntry, TarError } from '../../../../src/lib/tar/read.ts';
import { decompressed, isDamage } from '../../machine/decompressed.ts';
import { openForWriting, readPieces } from '../../machine/tree.ts';
import { ArtifactError } from './error.ts';
import { fileNameProblem, LIMITS } from './file-name.ts';
import type { RecordFile } from './record.ts';
import type { ArtifactStore } from './store.ts';

/** The forms of archives that are unpacked. */
export type ArchiveForm = 'tar' | 'tar+gzip';

/** The room on the disk is looked at after so many bytes. */
const LOOK_EVERY = 16 * 1024 * 1024;

export interface UnpackDependencies {
  store: ArtifactStore;
  /** the artifact that the files are for */
  owner: string;
  claim(sha256: string): void;
  checkRoom(): Promise<void>;
}

/**
 * Makes each file of an archive, which is a content of the store, a content of its own. Nothing is made at a path that the
 * archive names. Throws ArtifactError, also for links that lead out of the archive, devices and pipes.
 */
export async function unpack(
  archive: { name: string; sha256: string; size: number; form: ArchiveForm },
  deps: UnpackDependencies,
  signal: AbortSignal,
): Promise<RecordFile[]> {
  const files = new Map<string, RecordFile>();
  const room = { left: 0 };
  try {
    let entries = 0;
    for await (const entry of readTar(unpacked(archive, deps.store, signal))) {
      if (++entries > LIMITS.files) throw new TarError(`it has more than ${LIMITS.files} entries`);
      const path = pathOf(entry.path);
      // The archive's own directory. The content of a file is read by `keep` alone, which looks at the room on the disk.
      if ((path === '' || path === '.') && entry.type === 'directory') continue;
      const problem = fileNameProblem(path);
      if (problem) throw new TarError(`its file name ${shown(path)} ${problem}`);
      if (entry.type === 'directory') continue;
      if (files.has(path)) throw new TarError(`it has two files named ${shown(path)}`);
      files.set(path, await fileOf(path, entry));
    }
    return [...files.values()];
  } catch (error) {
    signal.throwIfAborted();
    if (error instanceof TarError || isDamage(error))
      throw new ArtifactError('Invalid', `the archive ${shown(archive.name)}: ${(error as Error).message}`, {
        cause: error,
      });
    throw error;
  }

  async function fileOf(path: string, entry: TarEntry): Promise<RecordFile> {
    if (entry.type === 'file') return { path, ...(await keep(path, entry)) };
    const target = entry.type === 'hardlink' && files.get(pathOf(entry.target));
    if (target) return { ...target, path };
    const what = entry.type.endsWith('link')
      ? `the link ${shown(path)} to ${shown(entry.target)}`
      : `the special file ${shown(path)}`;
    throw new TarError(`it has ${what}; only files, directories and hard links to its own files are unpacked`);
  }

  async function keep(path: string, { size, content }: TarEntry): Promise<{ sha256: string; size: number }> {
    const { store, owner, claim, checkRoom } = deps;
    const partial = store.partial(`${archive.sha256}/${path}`);
    partial.begin({ owner });
    const hash = createHash('sha256');
    {
      await using file = await openForWriting(partial.path, 0);
      for await (const piece of content) {
        signal.throwIfAborted();
        room.left -= piece.length;
        if (room.left < 0) {
          await checkRoom();
          room.left = LOOK_EVERY;
        }
        await file.writeFile(piece);
        hash.update(piece);
      }
      await file.sync();
    }
    const sha256 = hash.digest('hex');
    claim(sha256);
    await partial.finish({ owner, sha256 });
    return { sha256, size };
  }
}

async function* unpacked(
  { sha256, size, form }: { sha256: string; size: number; form: ArchiveForm },
  store: ArtifactStore,
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const packed = readPieces(store.blob(sha256), size);
  // Also an archive of headers alone ends when it is no longer wanted.
  for await (const piece of form === 'tar' ? packed : decompressed(packed, 'gzip')) {
    signal.throwIfAborted();
    yield piece;
  }
}

/** Without "./" before it and slashes after it. */
const pathOf = (written: string) => written.replace(/^(\.\/)+/, '').replace(/(?<!\/)\/+$/, '');

const shown = (text: string) => JSON.stringify(text.slice(0, 100));
