import { constants, createReadStream, lstatSync, mkdirSync, readdirSync, readlinkSync, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { readTar, type TarEntry, TarError } from '../../../src/lib/tar/read.ts';
import { END, header, padding, type TarHeader } from '../../../src/lib/tar/write.ts';
import { CommandError } from '../context/errors.ts';

/** An archive of a file, or of a folder and what is in it, under another name. Links stay links. */
export async function* archive(path: string, name: string): AsyncGenerator<Buffer> {
  yield* entries(path, name);
  yield END;
}

async function* entries(path: string, name: string): AsyncGenerator<Buffer> {
  const stats = statOf(path);
  if (!stats) throw new CommandError(`there is no file ${path}`);
  const common = { path: name, mode: stats.mode, modified: stats.mtimeMs / 1000 };
  const headerOf = (own: Omit<TarHeader, 'path'>) => header({ ...common, ...own }, 'gnu');
  if (stats.isSymbolicLink()) yield headerOf({ type: 'symlink', target: readlinkSync(path) });
  else if (stats.isDirectory()) {
    yield headerOf({ type: 'directory' });
    for (const child of readdirSync(path).sort()) yield* entries(join(path, child), `${name}/${child}`);
  } else if (stats.isFile()) {
    yield headerOf({ type: 'file', size: stats.size });
    let left = stats.size;
    if (left > 0)
      for await (const chunk of createReadStream(path, { end: stats.size - 1 }) as AsyncIterable<Buffer>) {
        left -= chunk.length;
        yield chunk;
      }
    if (left > 0) throw new CommandError(`${path} became shorter while it was read`);
    yield padding(stats.size);
  } else throw new CommandError(`${path} is neither a file, a folder nor a link`);
}

/**
 * Writes what an archive has below `root` to `target`. The archive comes from a container and may be hostile: nothing is written
 * outside of `target`, no link is made, and none is followed. Says what was left out; resolves with the number of files.
 */
export async function extract(
  source: AsyncIterable<Buffer>,
  { root, target, leftOut }: { root: string; target: string; leftOut(text: string): void },
): Promise<number> {
  let files = 0;
  for await (const { path, type, mode, content } of entriesOf(source)) {
    const parts = path.split('/').filter((part) => part !== '' && part !== '.');
    if (parts.includes('..') || path.startsWith('/') || parts[0] !== root || path.includes('\0'))
      throw new CommandError(`the archive has an entry outside of ${root}: ${quoted(path)}`);
    const below = parts.slice(1);
    if (type !== 'file' && type !== 'directory') {
      leftOut(
        `${quoted(path)}: left out, since it is ${type === 'symlink' ? 'a symbolic link' : 'a hard link, or neither a file nor a folder'}`,
      );
      continue;
    }
    makeFolders(target, type === 'directory' ? below : below.slice(0, -1), below.length === 0 && type === 'file');
    if (type === 'directory') continue;
    files += 1;
    await writeFile(join(target, ...below), mode, content);
  }
  return files;
}

async function* entriesOf(source: AsyncIterable<Buffer>): AsyncGenerator<TarEntry> {
  try {
    yield* readTar(source, { toEnd: true });
  } catch (error) {
    throw error instanceof TarError ? new CommandError(`the archive cannot be read: ${error.message}`) : error;
  }
}

/** A name that a container has chosen, without what a terminal would obey. */
const quoted = (path: string) => JSON.stringify(path.slice(0, 200)).replaceAll(/\p{Cc}/gu, '');

/** Each folder on the way has to be one, and no link to one; `target` itself is the user's choice. */
function makeFolders(target: string, parts: readonly string[], isFile: boolean): void {
  if (isFile) return;
  mkdirSync(target, { recursive: true });
  let path = target;
  for (const part of parts) {
    path = join(path, part);
    const stats = statOf(path);
    if (!stats) mkdirSync(path);
    else if (!stats.isDirectory()) throw new CommandError(`${path} is in the way: it is no folder`);
  }
}

async function writeFile(path: string, mode: number, content: AsyncIterable<Buffer>): Promise<void> {
  const { O_WRONLY, O_CREAT, O_TRUNC, O_NOFOLLOW } = constants;
  const stats = statOf(path);
  if (stats && !stats.isFile()) throw new CommandError(`${path} is in the way: it is no regular file`);
  const file = await open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, mode & 0o777);
  try {
    for await (const chunk of content) await file.writeFile(chunk);
  } finally {
    await file.close();
  }
}

function statOf(path: string): Stats | undefined {
  return lstatSync(path, { throwIfNoEntry: false });
}

/** The last name of a path, without slashes at its end. */
export const lastName = (path: string): string => basename(path.replace(/(?<!\/)\/+$/, ''));
