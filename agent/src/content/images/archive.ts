import { createHash, type Hash } from 'node:crypto';
import { posix } from 'node:path';
import { readTar, type TarEntry, TarError } from '../../../../src/lib/tar/read.ts';
import { END, header, padding } from '../../../../src/lib/tar/write.ts';
import { type Compression, decompressed, isDamage } from '../../machine/decompressed.ts';
import { ArchiveError } from './archive-error.ts';
import { type ArchivedFile, type ArchivedImage, archivedImages } from './archive-form.ts';

const MIB = 1024 ** 2;
/** Entries of an archive, directories included. */
const ENTRIES = 20_000;
/** A file up to this size has a digest, and may be JSON. */
const SMALL = 4 * MIB;
/** All JSON that is kept in memory. */
const JSON_BYTES = 16 * MIB;
/** The room on the disk is looked at after so many bytes. */
const LOOK_EVERY = 16 * MIB;

/** An archive that was read once. */
export interface ExaminedArchive {
  images: readonly ArchivedImage[];
  /** of everything that was read: a second reading has to give the same */
  fingerprint: string;
}

export interface ExamineOptions {
  /** of this machine, in the words of images */
  architecture: string;
  /** Throws where so many bytes do not fit on the disk of the engine. */
  checkRoom(bytes: number): void | Promise<void>;
}

/**
 * Reads an archive, a tar that may be compressed by gzip, without keeping it: which images it has, and what it takes unpacked with
 * its layers. Throws ArchiveError, and what `checkRoom` throws.
 */
export async function examineArchive(
  source: AsyncIterable<Buffer>,
  { architecture, checkRoom }: ExamineOptions,
): Promise<ExaminedArchive> {
  const files = new Map<string, ArchivedFile>();
  const links = new Map<string, string>();
  const hash = createHash('sha256');
  const room = new Room(checkRoom);
  let jsonBytes = 0;
  await translated(async () => {
    for await (const entry of entriesOf(source)) {
      const path = pathOf(entry);
      if (files.has(path) || links.has(path)) throw new ArchiveError(`it has two entries ${shown(path)}`);
      note(hash, path, entry);
      if (entry.type === 'symlink') links.set(path, targetOf(path, entry));
      else {
        const file = await readFile(path, entry, hash, room);
        jsonBytes += file.json?.length ?? 0;
        if (jsonBytes > JSON_BYTES) throw new ArchiveError(`it has more than ${JSON_BYTES / MIB} MiB of JSON`);
        files.set(path, file);
      }
    }
  });
  await room.check();
  return { images: archivedImages({ files, links }, architecture), fingerprint: hash.digest('hex') };
}

/**
 * The archive as an engine gets it: configurations and layers of the images, and at its end the names, which are those that were
 * examined. Throws ArchiveError, before the names, where the archive is not what it was; `beforeNames` may throw as well.
 */
export async function* repackArchive(
  source: AsyncIterable<Buffer>,
  { images, fingerprint }: ExaminedArchive,
  beforeNames: () => Promise<void> = async () => {},
): AsyncGenerator<Buffer> {
  const needed = new Set(images.flatMap(({ config, layers }) => [config, ...layers]));
  const hash = createHash('sha256');
  for await (const entry of entriesOf(source)) {
    const path = pathOf(entry);
    note(hash, path, entry);
    const isNeeded = needed.has(path);
    if (isNeeded) yield header({ path, type: 'file', size: entry.size }, 'gnu');
    for await (const piece of entry.content) {
      hash.update(piece);
      // The memory of a piece is used again, and the reader may write later.
      if (isNeeded) yield Buffer.from(piece);
    }
    if (isNeeded) yield padding(entry.size);
  }
  if (hash.digest('hex') !== fingerprint) throw new ArchiveError('it was changed while it was read');
  await beforeNames();
  const manifest = images.map(({ config, names, layers }) => ({ Config: config, RepoTags: names, Layers: layers }));
  const bytes = Buffer.from(JSON.stringify(manifest));
  yield Buffer.concat([
    header({ path: 'manifest.json', type: 'file', size: bytes.length }, 'gnu'),
    ...[bytes, padding(bytes.length), END],
  ]);
}

/** The files and symbolic links of an archive; directories are left out. */
async function* entriesOf(source: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  const { head, all } = await peek(source);
  const form = compressionOf(head);
  if (form === 'zstd' || form === 'other') throw new ArchiveError('it is compressed in another way than by gzip');
  let count = 0;
  for await (const entry of readTar(form ? decompressed(all, form) : all)) {
    if (++count > ENTRIES) throw new ArchiveError(`it has more than ${ENTRIES} entries`);
    if (entry.type === 'directory') continue;
    if (entry.type !== 'file' && entry.type !== 'symlink')
      throw new ArchiveError(`its entry ${shown(entry.path)} is neither a file nor a symbolic link`);
    yield entry;
  }
}

/** Reads a file of the archive, and counts what it takes: as it is, and unpacked where it may be a layer. */
async function readFile(path: string, { size, content }: TarEntry, whole: Hash, room: Room): Promise<ArchivedFile> {
  const hash = size <= SMALL ? createHash('sha256') : undefined;
  const noted = unclosed(content, (piece) => {
    whole.update(piece);
    hash?.update(piece);
    return room.take(piece.length);
  });
  const { head, all } = await peek(noted);
  const kept: Buffer[] = [];
  if (hash && /^\s*[{[]/.test(head.toString('latin1'))) for await (const piece of all) kept.push(Buffer.from(piece));
  else await countUnpacked(path, head, all, room);
  // An unpacked stream may end before the file does.
  for await (const _ of noted);
  return {
    size,
    ...(hash && { digest: `sha256:${hash.digest('hex')}` }),
    ...(kept.length > 0 && { json: Buffer.concat(kept) }),
  };
}

/** Counts what a layer unpacks to. The engine writes it a second time. */
async function countUnpacked(path: string, head: Buffer, all: AsyncIterable<Buffer>, room: Room): Promise<void> {
  const form = compressionOf(head);
  if (form === 'other') throw new ArchiveError(`its file ${shown(path)} is compressed in a way that is not supported`);
  const plain = form ? decompressed(all, form) : all;
  const counted = unclosed(plain, (piece) => room.take(piece.length));
  const unpacked = await peek(counted);
  try {
    // Engines unpack sparse files to their full size; reading the entries refuses them.
    if (isTar(unpacked.head))
      for await (const _ of readTar(unpacked.all, { toEnd: true, maxExtensions: Number.POSITIVE_INFINITY }));
    for await (const _ of counted);
  } catch (error) {
    if (error instanceof TarError)
      throw new ArchiveError(`its layer ${shown(path)} cannot be loaded: ${error.message}`);
    throw error;
  }
}

/** Room on a disk, which is looked at again and again while bytes are taken. */
class Room {
  readonly #check: (bytes: number) => void | Promise<void>;
  #taken = 0;
  #next = LOOK_EVERY;

  constructor(check: (bytes: number) => void | Promise<void>) {
    this.#check = check;
  }

  take(bytes: number): void | Promise<void> {
    this.#taken += bytes;
    if (this.#taken < this.#next) return undefined;
    this.#next = this.#taken + LOOK_EVERY;
    return this.check();
  }

  async check(): Promise<void> {
    await this.#check(this.#taken);
  }
}

/** The first bytes of a stream, at most 512, and all of it. */
async function peek(source: AsyncIterable<Buffer>): Promise<{ head: Buffer; all: AsyncIterable<Buffer> }> {
  const iterator = source[Symbol.asyncIterator]();
  let head: Buffer = Buffer.alloc(0);
  while (head.length < 512) {
    const { value, done } = await iterator.next();
    if (done) break;
    head = Buffer.concat([head, value]);
  }
  async function* all() {
    try {
      if (head.length > 0) yield head;
      for (;;) {
        const { value, done } = await iterator.next();
        if (done) return;
        yield value;
      }
    } finally {
      await iterator.return?.();
    }
  }
  return { head, all: all() };
}

/** The pieces of a stream, which stays open when a reader stops early; `each` gets every piece before the reader. */
function unclosed(source: AsyncIterable<Buffer>, each: (piece: Buffer) => void | Promise<void>): AsyncIterable<Buffer> {
  const iterator = source[Symbol.asyncIterator]();
  const next = async () => {
    const result = await iterator.next();
    if (!result.done) await each(result.value);
    return result;
  };
  return { [Symbol.asyncIterator]: () => ({ next }) };
}

function compressionOf(head: Buffer): Compression | 'other' | undefined {
  const begins = (hex: string) => head.subarray(0, hex.length / 2).toString('hex') === hex;
  if (begins('1f8b')) return 'gzip';
  if (begins('28b52ffd')) return 'zstd';
  // bzip2, xz, lzip
  return ['425a68', 'fd377a585a', '4c5a4950'].some(begins) ? 'other' : undefined;
}

const isTar = (head: Buffer) => head.toString('latin1', 257, 262) === 'ustar';

/** The path of an entry, without dots. Throws ArchiveError for a path that leads out of the archive. */
function pathOf({ path }: TarEntry): string {
  const plain = posix.normalize(path);
  if (path === '' || plain.startsWith('/') || plain.split('/')[0] === '..' || plain.includes('\0'))
    throw new ArchiveError(`its entry ${shown(path)} leads out of the archive`);
  return plain;
}

/** Where a symbolic link leads, as a path of the archive. */
function targetOf(path: string, { target }: TarEntry): string {
  const plain = posix.normalize(posix.join(posix.dirname(path), target));
  if (target.startsWith('/') || plain.split('/')[0] === '..')
    throw new ArchiveError(`its link ${shown(path)} leads out of the archive`);
  return plain;
}

function note(hash: Hash, path: string, { type, size, target }: TarEntry): void {
  hash.update(`${JSON.stringify([path, type, size, target])}\n`);
}

/** Throws ArchiveError for what cannot be read. */
async function translated(read: () => Promise<void>): Promise<void> {
  try {
    await read();
  } catch (error) {
    if (error instanceof TarError) throw new ArchiveError(error.message, { cause: error });
    if (isDamage(error))
      throw new ArchiveError('it is damaged: what is compressed cannot be unpacked', { cause: error });
    throw error;
  }
}

const shown = (text: string) => JSON.stringify(text.slice(0, 100));
