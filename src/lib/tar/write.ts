import { BLOCK, headerChecksum, padded } from './block.ts';

export interface TarHeader {
  /** Directories without a trailing slash. */
  path: string;
  type: 'file' | 'directory' | 'symlink';
  /** bytes of the content that follows; absent: none */
  size?: number;
  /** absent: 0644 of a file, 0755 of others */
  mode?: number;
  uid?: number;
  gid?: number;
  /** Unix seconds; absent: 1970, so that equal entries make equal archives */
  modified?: number;
  /** what a symbolic link names */
  target?: string;
}

/** `ustar` is POSIX and limits the length of names; `gnu` has long names, which also small tars read. */
export type TarForm = 'ustar' | 'gnu';

const FLAGS = { file: '0', directory: '5', symlink: '2' } as const;

/** What follows the last entry of an archive. */
export const END: Buffer = Buffer.alloc(2 * BLOCK);

/** What follows the content of an entry. */
export const padding = (size: number): Buffer => Buffer.alloc(padded(size) - size);

/** An entry whose content is in memory. */
export type NewEntry = Omit<TarHeader, 'size'> & { content?: Uint8Array };

/** A whole archive in the form `ustar`. Throws RangeError for a name that it has no room for. */
export function makeTar(entries: readonly NewEntry[]): Buffer {
  const pieces = entries.flatMap(({ content = Buffer.alloc(0), ...entry }) => [
    header({ ...entry, size: content.length }, 'ustar'),
    content,
    padding(content.length),
  ]);
  return Buffer.concat([...pieces, END]);
}

/** What precedes the content of an entry. Throws RangeError for a name that the form has no room for. */
export function header(entry: TarHeader, form: TarForm): Buffer {
  const path = entry.type === 'directory' ? `${entry.path}/` : entry.path;
  const { target = '' } = entry;
  if (form === 'gnu')
    return Buffer.concat([
      ...longName('K', target),
      ...longName('L', path),
      block(path, FLAGS[entry.type], entry, form),
    ]);
  const [prefix, name] = splitPath(path);
  if (Buffer.byteLength(target) > 100) throw new RangeError(`The target is too long for an archive: ${target}`);
  return block(name, FLAGS[entry.type], entry, form, prefix);
}

function longName(flag: string, text: string): Buffer[] {
  const bytes = Buffer.from(`${text}\0`);
  if (bytes.length <= 101) return [];
  const size = bytes.length;
  return [block('././@LongLink', flag, { type: 'file', size }, 'gnu'), bytes, padding(size)];
}

/** ustar has 100 bytes for a name and 155 for the folders before it. */
function splitPath(path: string): [prefix: string, name: string] {
  if (Buffer.byteLength(path) <= 100) return ['', path];
  for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) {
    const prefix = path.slice(0, at);
    const name = path.slice(at + 1);
    if (name && Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155) return [prefix, name];
  }
  throw new RangeError(`The path is too long for an archive: ${path}`);
}

function block(name: string, flag: string, entry: Omit<TarHeader, 'path'>, form: TarForm, prefix = ''): Buffer {
  const { type, size = 0, mode = type === 'file' ? 0o644 : 0o755, uid = 0, gid = 0, modified = 0, target = '' } = entry;
  const bytes = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, length: number) =>
    bytes.write(value.toString(8).padStart(length - 1, '0'), at, 'latin1');
  const text = (value: string, at: number, length: number) => Buffer.from(value).copy(bytes, at, 0, length);
  text(name, 0, 100);
  octal(mode & 0o7777, 100, 8);
  octal(uid, 108, 8);
  octal(gid, 116, 8);
  if (size < 2 ** 33) octal(size, 124, 12);
  else {
    bytes[124] = 0x80;
    bytes.writeBigUInt64BE(BigInt(size), 128);
  }
  octal(Math.max(0, Math.trunc(modified)) % 2 ** 33, 136, 12);
  text(flag, 156, 1);
  text(target, 157, 100);
  text(form === 'gnu' ? 'ustar  \0' : 'ustar\x0000', 257, 8);
  text(prefix, 345, 155);
  // Digests of images and releases depend on these blanks.
  bytes.write(`${headerChecksum(bytes).toString(8).padStart(6, '0')}  `, 148, 'latin1');
  return bytes;
}
