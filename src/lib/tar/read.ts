import { BLOCK, headerChecksum, padded } from './block.ts';

/** Reads tar archives (POSIX pax and ustar, with the long names of GNU) as they arrive, from a source that is not trusted. */

/** bytes of what says more of an entry: its long name, its pax records */
const MAX_EXTENSION = 64 * 1024;
/** Bytes of all extended headers of an archive: a small archive may unpack to any number of them. */
const MAX_EXTENSIONS = 32 * 1024 * 1024;

export interface TarEntry {
  path: string;
  type: 'file' | 'directory' | 'hardlink' | 'symlink' | 'other';
  /** permissions, 0644 where they cannot be read */
  mode: number;
  size: number;
  /** what a link names */
  target: string;
  /** Of a file, once, before the next entry is asked for; what is not read is passed over. */
  content: AsyncIterable<Buffer>;
}

/** The archive cannot be read. The subject of the message is `it`. */
export class TarError extends Error {
  override name = 'TarError';
}

const TYPES: Readonly<Record<string, TarEntry['type']>> = {
  '0': 'file',
  '7': 'file',
  '1': 'hardlink',
  '2': 'symlink',
  '5': 'directory',
};

/** Links, devices and pipes may name a size and have no content. */
const EMPTY = '123456';

/** A few bytes of it would unpack to any number of them. */
const SPARSE = 'it has a sparse file, which is not unpacked';

export interface TarOptions {
  /** bytes of all extended headers that are read; absent: 32 MiB */
  maxExtensions?: number;
  /** Reads the source to its end: the program that writes it would fail otherwise. Absent: only to the end of the archive. */
  toEnd?: boolean;
}

/** The entries of an archive, in their order. Throws TarError. Paths and types are for the caller to judge. */
export async function* readTar(
  source: AsyncIterable<Buffer>,
  { toEnd, maxExtensions = MAX_EXTENSIONS }: TarOptions = {},
): AsyncGenerator<TarEntry> {
  const reader = new ByteReader(source);
  try {
    yield* entriesOf(reader, maxExtensions);
    if (toEnd) await reader.passOverRest();
  } finally {
    await reader.close();
  }
}

async function* entriesOf(reader: ByteReader, maxExtensions: number): AsyncGenerator<TarEntry> {
  let extension: { path?: string; target?: string; size?: number } = {};
  let extended = 0;
  for (;;) {
    const block = await reader.take(BLOCK);
    // Two blocks of zeros end an archive; some writers leave them out.
    if (block.every((byte) => byte === 0)) return;
    if (block.length < BLOCK) throw new TarError('it ends within an entry');
    const { flag, path, target, mode, size } = parseHeader(block);
    if ('LKxg'.includes(flag)) {
      if (size > MAX_EXTENSION) throw new TarError('it has an entry with too long a name');
      extended += BLOCK + padded(size);
      if (extended > maxExtensions) throw new TarError(`it has more than ${maxExtensions} bytes of extended headers`);
      const text = (await reader.exactly(padded(size))).subarray(0, size);
      if (flag === 'L') extension.path = cString(text);
      if (flag === 'K') extension.target = cString(text);
      if (flag === 'x') extension = { ...extension, ...parsePax(text) };
      continue;
    }
    if (flag === 'S') throw new TarError(SPARSE);
    const entry = { path, target, mode, size, ...extension };
    extension = {};
    const type = flag === '\0' ? (entry.path.endsWith('/') ? 'directory' : 'file') : (TYPES[flag] ?? 'other');
    const length = type === 'directory' || EMPTY.includes(flag) ? 0 : entry.size;
    const content = reader.pieces(length);
    yield { ...entry, size: length, type, content };
    for await (const _ of content);
    await reader.exactly(padded(length) - length);
  }
}

function parseHeader(block: Buffer): { flag: string; path: string; target: string; mode: number; size: number } {
  if (headerChecksum(block) !== numberAt(block, 148, 8)) throw new TarError('it is no tar archive, or is damaged');
  const name = cString(block.subarray(0, 100));
  const prefix = block.toString('latin1', 257, 263) === 'ustar\0' ? cString(block.subarray(345, 500)) : '';
  return {
    flag: String.fromCharCode(block[156] ?? 0),
    path: prefix ? `${prefix}/${name}` : name,
    target: cString(block.subarray(157, 257)),
    mode: Number.parseInt(/^ *([0-7]+)/.exec(cString(block.subarray(100, 108)))?.[1] ?? '644', 8) & 0o777,
    size: numberAt(block, 124, 12),
  };
}

/** Octal digits, or, for what these cannot say, big-endian with the highest bit set. */
function numberAt(block: Buffer, at: number, length: number): number {
  const field = block.subarray(at, at + length);
  if ((field[0] ?? 0) & 0x80) return checked(Number(BigInt(`0x${field.toString('hex')}`) & (2n ** 63n - 1n)));
  const text = cString(field).trim();
  if (!/^[0-7]*$/.test(text)) throw new TarError('it is no tar archive, or is damaged');
  return checked(Number.parseInt(text || '0', 8));
}

function checked(size: number): number {
  if (!Number.isSafeInteger(size)) throw new TarError('it has an entry without a possible size');
  return size;
}

/** Records `<length> <key>=<value>\n`. */
function parsePax(data: Buffer): { path?: string; target?: string; size?: number } {
  const found: { path?: string; target?: string; size?: number } = {};
  for (let at = 0; at < data.length; ) {
    const space = data.indexOf(0x20, at);
    const length = Number(data.toString('latin1', at, space));
    const record = data.toString('utf8', space + 1, at + length - 1);
    const equals = record.indexOf('=');
    if (space < 0 || !(length > space - at) || at + length > data.length || equals < 0)
      throw new TarError('it has an entry whose description cannot be read');
    const [key, value] = [record.slice(0, equals), record.slice(equals + 1)];
    if (key.startsWith('GNU.sparse.')) throw new TarError(SPARSE);
    if (key === 'path') found.path = value;
    if (key === 'linkpath') found.target = value;
    if (key === 'size') found.size = /^\d+$/.test(value) ? checked(Number(value)) : checked(Number.NaN);
    at += length;
  }
  return found;
}

function cString(bytes: Buffer): string {
  const end = bytes.indexOf(0);
  return bytes.toString('utf8', 0, end < 0 ? bytes.length : end);
}

class ByteReader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** So many bytes, or those that are left. At most MAX_EXTENSION and a block. */
  async take(length: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    // The source may use a piece's memory again.
    for await (const piece of this.#upTo(length)) pieces.push(Buffer.from(piece));
    return Buffer.concat(pieces);
  }

  /** So many bytes, at most MAX_EXTENSION and a block. Throws where the source ends before. */
  async exactly(length: number): Promise<Buffer> {
    const bytes = await this.take(length);
    if (bytes.length < length) throw new TarError('it ends within an entry');
    return bytes;
  }

  /** So many bytes, piece by piece. Throws where the source ends before. */
  async *pieces(length: number): AsyncGenerator<Buffer> {
    let left = length;
    for await (const piece of this.#upTo(length)) {
      left -= piece.length;
      yield piece;
    }
    if (left > 0) throw new TarError('it ends within an entry');
  }

  async passOverRest(): Promise<void> {
    for await (const _ of this.#upTo(Number.POSITIVE_INFINITY));
  }

  async close(): Promise<void> {
    await this.#source.return?.();
  }

  async *#upTo(length: number): AsyncGenerator<Buffer> {
    for (let left = length; left > 0; ) {
      if (this.#rest.length === 0) {
        const { value, done } = await this.#source.next();
        if (done) return;
        this.#rest = value;
      }
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }
}
