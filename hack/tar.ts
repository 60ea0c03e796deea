/** One entry of a tar archive. */
export interface TarEntry {
  /** Without a leading slash; directories without a trailing one. */
  path: string;
  type: 'file' | 'directory' | 'symlink';
  content?: Uint8Array;
  /** Target of a symbolic link. */
  target?: string;
  mode?: number;
  uid?: number;
  gid?: number;
}

const BLOCK = 512;
const TYPE_FLAGS = { file: '0', symlink: '2', directory: '5' };

/**
 * A ustar archive. Times are zero, so that equal entries make equal archives.
 */
export function makeTar(entries: readonly TarEntry[]): Buffer {
  const pieces: Uint8Array[] = [];
  for (const entry of entries) {
    const content = entry.content ?? new Uint8Array();
    pieces.push(header(entry, content.length), content, new Uint8Array(-content.length & (BLOCK - 1)));
  }
  pieces.push(new Uint8Array(2 * BLOCK));
  return Buffer.concat(pieces);
}

function header(entry: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const [prefix, name] = splitPath(entry.type === 'directory' ? `${entry.path}/` : entry.path);
  const text = (value: string, offset: number) => block.write(value, offset, 'utf8');
  const octal = (value: number, offset: number, length: number) =>
    text(value.toString(8).padStart(length - 1, '0'), offset);
  text(name, 0);
  octal(entry.mode ?? (entry.type === 'file' ? 0o644 : 0o755), 100, 8);
  octal(entry.uid ?? 0, 108, 8);
  octal(entry.gid ?? 0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  text(TYPE_FLAGS[entry.type], 156);
  text(entry.target ?? '', 157);
  text('ustar\x0000', 257);
  text(prefix, 345);
  // For the checksum, its own field counts as eight blanks.
  block.fill(' ', 148, 156);
  octal(
    block.reduce((sum, byte) => sum + byte, 0),
    148,
    7,
  );
  return block;
}

/** ustar has 100 bytes for a name and 155 for the folders before it. */
function splitPath(path: string): [prefix: string, name: string] {
  if (Buffer.byteLength(path) <= 100) return ['', path];
  for (let at = path.indexOf('/'); at > 0; at = path.indexOf('/', at + 1)) {
    const prefix = path.slice(0, at);
    const name = path.slice(at + 1);
    if (name && Buffer.byteLength(name) <= 100 && Buffer.byteLength(prefix) <= 155) return [prefix, name];
  }
  throw new Error(`Path too long for an archive: ${path}`);
}
