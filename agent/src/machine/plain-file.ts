import { constants, type Stats } from 'node:fs';
import { open, statfs } from 'node:fs/promises';

/** A file with content of its own, open for reading; whatever gets its name later, this one is read. */
export interface PlainFile extends AsyncDisposable {
  /** bytes, when it was opened */
  readonly size: number;
  /** Its bytes from the first one on, as they are at the time of reading. The memory of a piece is used again. */
  pieces(): AsyncGenerator<Buffer>;
}

/** Why a path is not read, in one sentence. */
export class NotPlainError extends Error {
  override name = 'NotPlainError';
}

/** Linux: names a file without opening it, so that no device and no pipe notices. */
const O_PATH = 0x200000;

/** File systems of the kernel: what they show as files is made while it is read. */
const KERNEL_FILE_SYSTEMS: Readonly<Record<number, string>> = {
  40864: 'proc',
  1650812274: 'sysfs',
  2613483: 'cgroup',
  1667723888: 'cgroup2',
  1684170528: 'debugfs',
  1953653091: 'tracefs',
  1935894131: 'securityfs',
  1650812272: 'configfs',
  3405662737: 'bpf',
  1634035564: 'pstore',
  3730735588: 'efivarfs',
};

/**
 * Opens a file with content of its own. The opened file is judged, not whatever the path leads to a moment later. Throws
 * NotPlainError for a link, a directory, a device, a pipe, a socket, a file of the kernel, and a path to nothing.
 */
export async function openPlainFile(path: string): Promise<PlainFile> {
  await using named = await open(path, O_PATH | constants.O_NOFOLLOW).catch((error: NodeJS.ErrnoException) => {
    throw new NotPlainError(REASONS[error.code ?? ''] ?? `cannot be opened (${error.code})`);
  });
  const stats = await named.stat();
  if (!stats.isFile()) throw new NotPlainError(`is ${typeOf(stats)}, not a file`);
  const own = `/proc/self/fd/${named.fd}`;
  const { type } = await statfs(own);
  // Signed where numbers of the kernel have 32 bits.
  const kernel = KERNEL_FILE_SYSTEMS[type >>> 0];
  if (kernel) throw new NotPlainError(`is a file of the kernel (${kernel})`);
  const file = await open(own, constants.O_RDONLY);
  return { size: stats.size, pieces: () => piecesOf(file), [Symbol.asyncDispose]: () => file.close() };
}

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'does not exist',
  ENOTDIR: 'does not exist',
  EACCES: 'may not be read by the agent',
  ELOOP: 'leads in circles',
  ENAMETOOLONG: 'is too long',
};

function typeOf(stats: Stats): string {
  if (stats.isSymbolicLink()) return 'a link';
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a pipe';
  if (stats.isSocket()) return 'a socket';
  return 'a device';
}

async function* piecesOf(file: Awaited<ReturnType<typeof open>>): AsyncGenerator<Buffer> {
  const buffer = Buffer.allocUnsafe(256 * 1024);
  for (let position = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}
