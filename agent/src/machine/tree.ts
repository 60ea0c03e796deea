import { randomBytes } from 'node:crypto';
import { constants, type Stats } from 'node:fs';
import {
  chmod,
  chown,
  copyFile,
  type FileHandle,
  link,
  lstat,
  mkdir,
  open,
  opendir,
  readdir,
  readlink,
  rename,
  rm,
  rmdir,
  symlink,
  unlink,
} from 'node:fs/promises';
import { dirname, join } from 'node:path';

/** Files and directory trees that are large or many: nothing here blocks the process (disk.ts has the rest). */

/** The user and group that files belong to. */
export interface FileOwner {
  uid: number;
  gid: number;
}

/** Opens a file for writing, makes it when it is missing, and keeps its first bytes. */
export async function openForWriting(path: string, keep: number): Promise<FileHandle> {
  const file = await open(path, constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW, 0o600);
  await file.truncate(keep).catch(async (error: unknown) => {
    await file.close();
    throw error;
  });
  return file;
}

/** The bytes of a file, piece by piece. */
export async function* readPieces(path: string, length: number): AsyncGenerator<Buffer> {
  await using file = await open(path, 'r');
  const buffer = Buffer.allocUnsafe(1024 * 1024);
  for (let position = 0; position < length; ) {
    const { bytesRead } = await file.read(buffer, 0, Math.min(buffer.length, length - position), position);
    if (bytesRead === 0) return;
    position += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Renames a file or directory so that a loss of power leaves it under one of both names. */
export async function moveDurably(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncDirectory(dirname(to));
}

/** Waits until the names in a directory are on the disk. */
export async function syncDirectory(path: string): Promise<void> {
  await using directory = await open(path, constants.O_RDONLY | constants.O_DIRECTORY);
  await directory.sync();
}

/** What is at a path, without following a link; undefined when there is nothing. */
export async function statOf(path: string): Promise<Stats | undefined> {
  return lstat(path).catch(nothingIfMissing);
}

/** The names in a directory that no other program can write to. */
export async function namesIn(path: string): Promise<string[]> {
  return ((await readdir(path).catch(nothingIfMissing)) ?? []).sort();
}

/** The names in a directory that are directories, and no links to some; none where there is no directory. */
export async function directoriesIn(path: string): Promise<string[]> {
  const entries = (await readdir(path, { withFileTypes: true }).catch(nothingIfMissing)) ?? [];
  return entries.flatMap((entry) => (entry.isDirectory() ? [entry.name] : []));
}

/** Names in a directory, at most `limit` of them: another program may have made any number. */
export async function someNamesIn(path: string, limit: number): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(path)) {
    if (names.length >= limit) break;
    names.push(name);
  }
  return names;
}

export async function makeDirectories(path: string, mode = 0o755): Promise<void> {
  await mkdir(path, { recursive: true, mode });
}

/** Removes a file, or a tree that no other program can write to. */
export async function removeTree(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true });
}

/**
 * Removes a tree into which another program may still write, wherever that program lets links in it lead. Directories in it
 * are first moved next to it, under names that begin with `prefix`, where the program finds none of them by a path, so that
 * their depth costs no descriptors. At most `limit` files and directories are looked at; the rest, and files that are made
 * meanwhile, stay for another call. Returns how many were looked at. Throws at a mount point, and never looks into one.
 */
export async function removeWritableTree(path: string, limit: number, prefix = ''): Promise<number> {
  const left = [path];
  let count = 0;
  for (let each = left.pop(); each !== undefined && count++ < limit; each = left.pop()) {
    if (await removeFile(each)) continue;
    await withDirectory(each, async (pinned) => {
      for await (const { name } of await opendir(pinned)) {
        if (count++ >= limit) return;
        if (await removeFile(join(pinned, name))) continue;
        const moved = join(dirname(path), `${prefix}${randomBytes(8).toString('hex')}`);
        await moveAway(join(pinned, name), moved);
        left.push(moved);
      }
    });
    await removeEmptyDirectory(each);
  }
  return count;
}

/** Removes what is no directory; whether nothing is there now. */
async function removeFile(path: string): Promise<boolean> {
  try {
    await removeLink(path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EISDIR') return false;
    throw error;
  }
}

/** Removes a directory when it is empty. */
export async function removeEmptyDirectory(path: string): Promise<void> {
  await rmdir(path).catch(() => {});
}

/** Gives a file a second name, or copies it where that is not possible. */
export async function linkFile(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    // Another file system, or too many links.
    const { code } = error as NodeJS.ErrnoException;
    if (code !== 'EXDEV' && code !== 'EMLINK' && code !== 'EPERM') throw error;
    await copyFile(from, to, constants.COPYFILE_FICLONE);
    await chmod(to, 0o444);
  }
}

/** Copies a file so that its user may write to it; the copy shares its blocks where the file system can do that. */
export async function cloneFile(from: string, to: string, owner: FileOwner | undefined): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_FICLONE);
  await giveTo(to, owner ? 0o644 : 0o666, owner);
}

export async function giveTo(path: string, mode: number, owner: FileOwner | undefined): Promise<void> {
  await chmod(path, mode);
  if (owner) await chown(path, owner.uid, owner.gid);
}

/**
 * Does something with a directory by a path that means this very directory, whatever its path leads to meanwhile: a
 * container that can write to a directory may replace what is in it by links. Throws where the path itself is a link.
 */
export async function withDirectory<T>(path: string, act: (pinned: string) => Promise<T>): Promise<T> {
  await using directory = await openDirectory(path);
  return await act(pinned(directory));
}

/** As `withDirectory`; does nothing where there is no directory, or where another program put something else. */
export async function withDirectoryIfAny<T>(path: string, act: (pinned: string) => Promise<T>): Promise<T | undefined> {
  const directory = await openDirectory(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ELOOP') return undefined;
    return nothingIfMissing(error);
  });
  await using opened = directory;
  return opened && (await act(pinned(opened)));
}

/** Never waits for the other end of a pipe, since only a directory is opened. */
function openDirectory(path: string): Promise<FileHandle> {
  return open(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
}

const pinned = ({ fd }: FileHandle) => `/proc/self/fd/${fd}`;

/** As `withDirectory`, for a directory in a directory; what is no directory is replaced by one. */
export async function withSubdirectory<T>(
  parent: string,
  name: string,
  act: (pinned: string) => Promise<T>,
): Promise<T> {
  const path = join(parent, name);
  const found = await statOf(path);
  if (found && !found.isDirectory()) await unlink(path);
  if (!found?.isDirectory()) await mkdir(path, { mode: 0o755 });
  return withDirectory(path, act);
}

/** The text of a link; undefined for what is none. */
export async function linkText(path: string): Promise<string | undefined> {
  return readlink(path).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'EINVAL') return undefined;
    return nothingIfMissing(error);
  });
}

/** The name under which `switchLink` makes a link. */
export const NEXT_LINK = '.switch';

/** Makes a link in a directory, or lets it lead elsewhere, in one step: readers see the old one or the new one. */
export async function switchLink(directory: string, name: string, target: string): Promise<void> {
  const temporary = join(directory, NEXT_LINK);
  await removeLink(temporary);
  await symlink(target, temporary);
  await rename(temporary, join(directory, name));
}

/** Removes a link; one that is not there is no error. */
export async function removeLink(path: string): Promise<void> {
  await unlink(path).catch(nothingIfMissing);
}

/** Whether a directory is at a path; a link to one is none. */
export async function isDirectory(path: string): Promise<boolean> {
  return (await statOf(path))?.isDirectory() ?? false;
}

/** Moves a directory to where nothing is. */
export async function moveDirectory(from: string, to: string): Promise<void> {
  await rename(from, to);
}

/** Moves a file or directory away; one that is not there is no error. */
export async function moveAway(from: string, to: string): Promise<void> {
  await rename(from, to).catch(nothingIfMissing);
}

function nothingIfMissing(error: unknown): undefined {
  const { code } = error as NodeJS.ErrnoException;
  if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error;
  return undefined;
}
