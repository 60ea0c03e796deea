/** Archives as a stream: ustar with the long names of GNU, which also small tars read. */

interface TarEntry {
  path: string;
  type: 'file' | 'directory' | 'symlink' | 'other';
  mode: number;
  size: number;
  /** Unix seconds */
  modified: number;
  /** of a symbolic link */
  target?: string;
}

class TarError extends Error {}

const BLOCK = 512;
const TYPES = { '0': 'file', '\0': 'file', '5': 'directory', '2': 'symlink' } as const;
const FLAGS = { file: '0', directory: '5', symlink: '2', other: '6' } as const;
/** Longest name, and longest list of attributes of an entry. */
const META_BYTES = 64 * 1024;

export const END = Buffer.alloc(2 * BLOCK);
export const padding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK);

/** What precedes the content of an entry. */
export function header(entry: TarEntry): Buffer {
  const path = entry.type === 'directory' ? `${entry.path}/` : entry.path;
  return Buffer.concat([
    ...longName('K', entry.target ?? ''),
    ...longName('L', path),
    block(path, FLAGS[entry.type], entry.size, entry.mode, entry.modified, entry.target),
  ]);
}

function longName(flag: string, text: string): Buffer[] {
  const bytes = Buffer.from(`${text}\0`);
  if (bytes.length <= 101) return [];
  return [block('././@LongLink', flag, bytes.length, 0o644, 0), bytes, padding(bytes.length)];
}

function block(path: string, flag: string, size: number, mode: number, modified: number, target = ''): Buffer {
  const bytes = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    bytes.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  Buffer.from(path).copy(bytes, 0, 0, 100);
  octal(mode & 0o7777, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  if (size < 2 ** 33) octal(size, 124, 12);
  else {
    bytes[124] = 0x80;
    bytes.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(Math.max(0, Math.trunc(modified)) % 2 ** 33, 136, 12);
  bytes.write(flag, 156, 'latin1');
  Buffer.from(target).copy(bytes, 157, 0, 100);
  bytes.write('ustar  \0', 257, 'latin1');
  bytes.write(`${sumOf(bytes).toString(8).padStart(6, '0')}\0 `, 148, 'latin1');
  return bytes;
}

/** For the checksum, its own field counts as eight blanks. */
const sumOf = (bytes: Buffer) => bytes.reduce((sum, byte, at) => sum + (at >= 148 && at < 156 ? 32 : byte), 0);

/** Pieces of a stream, by number of bytes; never more than a piece is held. */
class Pieces {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** At most so many bytes; none at the end. */
  async some(most: number): Promise<Buffer> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#source.next();
      if (done) return this.#rest;
      this.#rest = value as Buffer;
    }
    const piece = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  async *content(size: number): AsyncGenerator<Buffer> {
    for (let left = size; left > 0; ) {
      const piece = await this.some(left);
      if (piece.length === 0) throw new TarError('the archive ends within an entry');
      left -= piece.length;
      yield piece;
    }
  }

  async exactly(size: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for await (const piece of this.content(size)) pieces.push(piece);
    return Buffer.concat(pieces);
  }
}

interface ReadEntry extends TarEntry {
  /** What is not read is skipped. */
  content: AsyncIterable<Buffer>;
}

/** The entries of an archive, in turn. Nothing in it is believed: lengths are bounded, and paths are for the caller to judge. */
export async function* readTar(source: AsyncIterable<Buffer>): AsyncGenerator<ReadEntry> {
  const pieces = new Pieces(source);
  let long: { path?: string; target?: string; size?: number } = {};
  for (;;) {
    const first = await pieces.some(BLOCK);
    if (first.length === 0) return;
    const bytes = Buffer.concat([first, await pieces.exactly(BLOCK - first.length)]);
    if (bytes.every((byte) => byte === 0)) {
      while ((await pieces.some(BLOCK)).length > 0);
      return;
    }
    if (Number.parseInt(textAt(bytes, 148, 8).trim(), 8) !== sumOf(bytes)) throw new TarError('this is no tar archive');
    const size = numberAt(bytes, 124, 12);
    const flag = String.fromCharCode(bytes[156] ?? 0);
    if ('LKxg'.includes(flag)) {
      if (size > META_BYTES) throw new TarError(`a name in the archive has ${size} bytes; ${META_BYTES} are the limit`);
      const meta = await pieces.exactly(size);
      await pieces.exactly(padding(size).length);
      if (flag === 'L') long.path = textAt(meta, 0, meta.length);
      if (flag === 'K') long.target = textAt(meta, 0, meta.length);
      if (flag === 'x') long = { ...long, ...attributes(meta) };
      continue;
    }
    const prefix = textAt(bytes, 257, 6) === 'ustar' ? textAt(bytes, 345, 155) : '';
    const name = textAt(bytes, 0, 100);
    const type = TYPES[flag as keyof typeof TYPES] ?? 'other';
    const length = flag === '5' || flag === '2' || flag === '1' ? 0 : (long.size ?? size);
    const content = pieces.content(length);
    yield {
      path: long.path ?? (prefix ? `${prefix}/${name}` : name),
      target: long.target ?? textAt(bytes, 157, 100),
      ...{ type, size: length, content },
      mode: numberAt(bytes, 100, 8) & 0o777,
      modified: numberAt(bytes, 136, 12),
    };
    long = {};
    for await (const _ of content);
    await pieces.exactly(padding(length).length);
  }
}

function textAt(bytes: Buffer, at: number, length: number): string {
  const field = bytes.subarray(at, at + length);
  const end = field.indexOf(0);
  return field.subarray(0, end < 0 ? length : end).toString('utf8');
}

function numberAt(bytes: Buffer, at: number, length: number): number {
  const isBinary = ((bytes[at] ?? 0) & 0x80) !== 0;
  const value = isBinary
    ? Number(bytes.readBigUInt64BE(at + length - 8))
    : Number.parseInt(textAt(bytes, at, length).trim() || '0', 8);
  if (!Number.isSafeInteger(value) || value < 0) throw new TarError('a number in the archive cannot be read');
  return value;
}

/** `27 path=a/b\n` and so on, of which three matter. */
function attributes(meta: Buffer): { path?: string; target?: string; size?: number } {
  const found: { path?: string; target?: string; size?: number } = {};
  for (let at = 0; at < meta.length; ) {
    const length = Number.parseInt(textAt(meta, at, 16), 10);
    if (!(length > 3)) throw new TarError('an attribute in the archive cannot be read');
    const record = meta.subarray(at, at + length - 1).toString('utf8');
    const [, key, value = ''] = /^\d+ ([^=]+)=(.*)$/s.exec(record) ?? [];
    if (key === 'path') found.path = value;
    if (key === 'linkpath') found.target = value;
    if (key === 'size') {
      const size = Number(value);
      if (!Number.isSafeInteger(size) || size < 0) throw new TarError('a number in the archive cannot be read');
      found.size = size;
    }
    at += length;
  }
  return found;
}
