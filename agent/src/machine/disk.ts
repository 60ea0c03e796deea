import { createHash } from 'node:crypto';
import {
  appendFileSync,
  type BigIntStats,
  chmodSync,
  chownSync,
  closeSync,
  constants,
  copyFileSync,
  existsSync,
  fstatSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { lstat, open, readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { PathKind } from '../domain/setting-checks.ts';

/** The only module that touches files, with atomic-directory.ts; the database and the lock (state/) open their own. */

/** A file's text, or undefined when there is none. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** A file of the kernel (procfs, cgroupfs), or undefined when it cannot be read. */
export async function readKernelFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return undefined;
  }
}

/**
 * Replaces a file's content so that a loss of power leaves the old content or the new one, never a part. Its directory is
 * made when it is missing. When it throws, the file has its former content.
 */
export function writeDurably(path: string, text: string, mode = 0o600): void {
  makeDirectoryDurably(dirname(path));
  confirmed(path, mode, () => replaceFile(path, text, mode));
}

/** Removes a file so that a loss of power does not bring it back; a missing file is no error. When it throws, the file is there. */
export function removeDurably(path: string, mode = 0o600): void {
  confirmed(path, mode, () => removePath(path));
}

/** Changes what has a path, and waits until its directory is on the disk; puts the former file back where the disk does not confirm that. */
function confirmed(path: string, mode: number, change: () => void): void {
  const former = openFormer(path);
  try {
    change();
    confirmOrPutBack(path, mode, former);
  } finally {
    if (typeof former === 'number') closeSync(former);
  }
}

/**
 * Waits until the directory of a path is on the disk. Where the disk does not confirm that, the former file is put back: the caller says
 * that nothing has changed, and the next start of the agent must find it so.
 */
function confirmOrPutBack(path: string, mode: number, former: FormerFile): void {
  try {
    syncPath(dirname(path));
  } catch (error) {
    if (former === undefined) rmSync(path, { force: true });
    else if (former !== 'unreadable') replaceFile(path, readFileSync(former), mode);
    throw error;
  }
}

/** A file before it is replaced: open, absent, or one of which nothing can be kept. */
type FormerFile = number | undefined | 'unreadable';

function openFormer(path: string): FormerFile {
  try {
    return openIfThere(path);
  } catch {
    return 'unreadable';
  }
}

function replaceFile(path: string, content: string | Uint8Array, mode: number): void {
  const temporary = `${path}.${process.pid}.tmp`;
  try {
    writeSynced(temporary, content, mode);
    renameSync(temporary, path);
  } catch (error) {
    // On a full disk every byte counts.
    rmSync(temporary, { force: true });
    throw error;
  }
}

/** One state of a file: another write, and another file in its place, has another one. */
export function fileStamp(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found && stampOf(found);
}

const stampOf = ({ dev, ino, size, mtimeNs }: BigIntStats) => `${dev}:${ino}:${size}:${mtimeNs}`;

/** So often a text is decided again before the edit is given up. */
const EDITS = 5;

/**
 * Replaces the text of a file by what `decide` makes of it, durably. Mode and links to the file stay. When another program changes the
 * file meanwhile, the decision is taken again with its text, so that neither change is lost.
 */
export function editText(path: string, decide: (text: string | undefined) => string): void {
  const target = followLinks(path);
  let given: string | undefined;
  for (let attempt = 0; attempt < EDITS; attempt++) {
    const before = fileStamp(target);
    const text = decide(given ?? readText(target));
    const late = replaceIf(target, text, before);
    if (late === 'done') return;
    given = late.text;
  }
  throw new Error(`${path} changes all the time; nothing was written`);
}

/** Replaces a file that is still as it was; else, and where it was written at the last moment, says so with its text. */
function replaceIf(path: string, text: string, before: string | undefined): 'done' | { text: string | undefined } {
  makeDirectory(dirname(path), 0o755);
  const temporary = `${path}.${process.pid}.tmp`;
  const former = openIfThere(path);
  const mode = fileMode(path) ?? 0o644;
  try {
    writeSynced(temporary, text, mode);
    if (fileStamp(path) !== before) return { text: undefined };
    renameSync(temporary, path);
    // A program that had the former file open may have written to it since.
    const isSame = former === undefined || stampOf(fstatSync(former, { bigint: true })) === before;
    if (!isSame) return { text: readFileSync(former, 'utf8') };
    confirmOrPutBack(path, mode, former);
  } finally {
    rmSync(temporary, { force: true });
    if (former !== undefined) closeSync(former);
  }
  return 'done';
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r');
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** What a path leads to. */
export function kindOfPath(path: string): PathKind {
  const found = statSync(path, { throwIfNoEntry: false });
  if (!found) return 'absent';
  if (found.isCharacterDevice()) return 'character device';
  if (found.isDirectory()) return 'directory';
  if (found.isFIFO()) return 'FIFO';
  if (found.isSocket()) return 'socket';
  return found.isBlockDevice() ? 'block device' : 'file';
}

/** Writes a file and waits until its content is on the disk. It has its mode whatever the process's umask is. */
export function writeSynced(path: string, content: string | Uint8Array, mode: number): void {
  const file = openSync(path, 'w', mode);
  try {
    writeFileSync(file, content);
    fsyncSync(file);
  } finally {
    closeSync(file);
  }
  chmodSync(path, mode);
}

/** Writes a file that nothing depends on. */
export function writeBytes(path: string, content: Uint8Array, mode: number): void {
  writeFileSync(path, content, { mode });
}

/** Appends to a file, which is made when it is missing. */
export function appendText(path: string, text: string, mode: number): void {
  appendFileSync(path, text, { mode });
}

/**
 * Makes an empty file that only its owner may open, or closes one that is there to others. That one is not opened: the kernel
 * would end the locks that this process has on it.
 */
export function makePrivateFile(path: string): void {
  if (!existsSync(path)) appendFileSync(path, '', { mode: 0o600 });
  chmodSync(path, 0o600);
}

export function renamePath(from: string, to: string): void {
  renameSync(from, to);
}

/** Renames so that the new name survives a loss of power. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncPath(dirname(to));
}

/** Makes a link lead elsewhere in one step, so that a loss of power leaves the old target or the new one. */
export function switchLinkSync(path: string, target: string): void {
  const temporary = `${path}.${process.pid}.tmp`;
  rmSync(temporary, { force: true });
  symlinkSync(target, temporary);
  renameDurably(temporary, path);
}

/** Makes a file appear under a second path, as a copy where its file system has no hard links to there. */
export function linkFileSync(from: string, to: string): void {
  rmSync(to, { force: true });
  try {
    linkSync(from, to);
  } catch {
    copyFileSync(from, to);
  }
}

/** Sets the permissions of a file or directory and waits until all of it is on the disk. */
export function finishFile(path: string, mode: number): void {
  // Not for writing: it may be another name of a program that runs.
  syncPath(path);
  chmodSync(path, mode);
}

/** The SHA-256 of a file in hex. */
export async function fileDigest(path: string): Promise<string> {
  const hash = createHash('sha256');
  await using file = await open(path, 'r');
  for await (const piece of file.createReadStream({ autoClose: false })) hash.update(piece as Buffer);
  return hash.digest('hex');
}

/**
 * The lines of a file as it is at the first call, in blocks of about so many bytes: the last block first, and in each block the lines
 * in their order.
 */
export function* linesBackwards(path: string, bytes: number): Generator<string[]> {
  const file = openSync(path, 'r');
  try {
    let end = fstatSync(file).size;
    /** the end of a line whose beginning is in an earlier block */
    let rest = Buffer.alloc(0);
    while (end > 0) {
      const start = Math.max(0, end - bytes);
      const piece = Buffer.alloc(end - start);
      const read = readSync(file, piece, 0, piece.length, start);
      const block = Buffer.concat([piece.subarray(0, read), rest]);
      const first = start === 0 ? 0 : block.indexOf('\n') + 1;
      end = start;
      // Without a break, all of it is the end of one line.
      rest = start === 0 || first > 0 ? block.subarray(0, first) : block;
      if (start === 0 || first > 0) yield block.toString('utf8', first).split('\n').filter(Boolean);
    }
  } finally {
    closeSync(file);
  }
}

/** The last bytes of a file, from the beginning of a line on. */
export function readTail(path: string, bytes: number): string {
  const file = openSync(path, 'r');
  try {
    const size = statSync(path).size;
    const buffer = Buffer.alloc(Math.min(bytes, size));
    const read = readSync(file, buffer, 0, buffer.length, Math.max(0, size - bytes));
    const text = buffer.toString('utf8', 0, read);
    return size > bytes ? text.slice(text.indexOf('\n') + 1) : text;
  } finally {
    closeSync(file);
  }
}

/** Waits until a file, or the names in a directory, are on the disk. */
export function syncPath(path: string): void {
  const handle = openSync(path, 'r');
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** Makes a directory and its parents; one that is there keeps its mode. Answers whether it was made. */
export function makeDirectory(path: string, mode: number): boolean {
  if (existsSync(path)) return false;
  mkdirSync(path, { recursive: true, mode });
  return true;
}

/** Makes a directory and its parents, each of which survives a loss of power. */
function makeDirectoryDurably(path: string): void {
  const first = mkdirSync(path, { recursive: true, mode: 0o755 });
  if (first === undefined) return;
  for (let made = path; made.length >= first.length; made = dirname(made)) syncPath(dirname(made));
}

/** Gives a directory an owner and a mode, past the process's umask. */
export function giveDirectory(path: string, mode: number, owner?: { uid: number; gid: number }): void {
  chmodSync(path, mode);
  if (owner) chownSync(path, owner.uid, owner.gid);
}

/** Whose a directory is, and its permissions. */
export function directoryOwner(path: string): { uid: number; gid: number; mode: number } {
  const { uid, gid, mode } = statSync(path);
  return { uid, gid, mode: mode & 0o7777 };
}

/** A new directory below another one, which only this process's user may open. */
export function privateDirectory(below: string, prefix: string): string {
  return mkdtempSync(join(below, prefix));
}

/** Copies a file to a path that is free: no file and no link that is there is written to. One that is not there is no error. */
export function copyFile(from: string, to: string): void {
  if (existsSync(from)) copyFileSync(from, to, constants.COPYFILE_EXCL);
}

/** Whether so many bytes can be written in a directory and come to rest on its disk. */
export function canWrite(directory: string, bytes: number): boolean {
  const path = join(directory, `.room-${process.pid}`);
  try {
    writeSynced(path, Buffer.alloc(bytes), 0o600);
    return true;
  } catch {
    return false;
  } finally {
    // What could not be made need not be removed; what was made on a disk that has failed since cannot be.
    try {
      rmSync(path, { force: true });
    } catch {}
  }
}

/** Renames a file out of the way, with a suffix. A file that is not there is no error. */
export function setAside(path: string, suffix: string): void {
  if (existsSync(path)) renameSync(path, `${path}${suffix}`);
}

/** Removes a file or a directory with all that is in it. */
export function removePath(path: string): void {
  rmSync(path, { recursive: true, force: true });
}

/** The names in a directory; empty when there is none. */
export function listDirectory(path: string): string[] {
  try {
    return readdirSync(path).sort();
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

/** Whether something is there. */
export function exists(path: string): boolean {
  return existsSync(path);
}

/**
 * A path with all its links followed, those too that lead to what does not exist: what will be made there will lie
 * there. Throws for a circle of links.
 */
export function followLinks(path: string): string {
  const ahead = path.split('/').filter(Boolean);
  let here = '/';
  for (let links = 0; ahead.length > 0; ) {
    const name = ahead.shift() as string;
    const next = name === '..' ? dirname(here) : name === '.' ? here : join(here, name);
    const target = name === '..' || name === '.' ? undefined : linkTarget(next);
    if (target === undefined) here = next;
    else {
      if (++links > 40) throw new Error(`${path} leads in circles`);
      ahead.unshift(...target.split('/').filter(Boolean));
      if (target.startsWith('/')) here = '/';
    }
  }
  return here;
}

/** Where a link leads, as it is written; undefined when there is no link. */
export function linkTarget(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch (error) {
    // EINVAL: it is there, and no link.
    if (isMissing(error) || (error as NodeJS.ErrnoException).code === 'EINVAL') return undefined;
    throw error;
  }
}

/** Names a file or directory, the same by whatever path it is reached; undefined when there is none. */
export function fileIdentity(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false, bigint: true });
  return found && `${found.dev}:${found.ino}`;
}

/** One mount, as a process sees it. */
interface Mount {
  point: string;
  /** what is mounted, as a place: see `locate` */
  place: string;
}

/** The mounts that a process sees, by its id or `self`; none where it has ended. */
export function mountsOf(process: string): Mount[] {
  return mountTable(process)
    .split('\n')
    .flatMap((line) => {
      const [, , device, root, point] = line.split(' ', 5);
      if (root === undefined || point === undefined) return [];
      return [{ point: unescaped(point), place: `${device}${root === '/' ? '' : unescaped(root)}` }];
    });
}

function mountTable(process: string): string {
  try {
    return readText(`/proc/${process}/mountinfo`) ?? '';
  } catch (error) {
    // A process that has ended and is not waited for yet has none, and says so in this way.
    if (['EINVAL', 'ESRCH'].includes((error as NodeJS.ErrnoException).code ?? '')) return '';
    throw error;
  }
}

const unescaped = (text: string) =>
  text.replaceAll(/\\([0-7]{3})/g, (_, code) => String.fromCharCode(Number.parseInt(code, 8)));

/** The mount points below a directory. */
export function mountsBelow(directory: string): string[] {
  const inside = directory === '/' ? '/' : `${directory}/`;
  return mountsOf('self')
    .map(({ point }) => point)
    .filter((point) => point.startsWith(inside));
}

/** Where paths without links lie in their file systems: the same place by whatever mount it is reached. */
export function locate(paths: readonly string[]): string[] {
  const mounts = mountsOf('self');
  return paths.map((path) => {
    let best: Mount = { point: '/', place: '' };
    for (const mount of mounts) {
      const holds = mount.point === '/' || path === mount.point || path.startsWith(`${mount.point}/`);
      // Of two at one point the later covers the earlier.
      if (holds && mount.point.length >= best.point.length) best = mount;
    }
    const rest = best.point === '/' ? path : path.slice(best.point.length);
    return `${best.place}${rest === '/' ? '' : rest}`;
  });
}

/** What a process has mounted, as places; none where it has ended. */
export function mountedPlaces(pid: number): string[] {
  return mountsOf(String(pid)).map(({ place }) => place);
}

/** Size and free space of the file system that holds a path, in bytes; how many files it can hold, 0 when any number. */
export function fileSystemSize(
  path: string,
): { total: number; available: number; files: number; freeFiles: number } | undefined {
  try {
    const { blocks, bavail, bsize, files, ffree } = statfsSync(path);
    return { total: blocks * bsize, available: bavail * bsize, files, freeFiles: ffree };
  } catch {
    return undefined;
  }
}

/**
 * Bytes that a directory holds on its own file system: blocks in use, hard links counted once. What goes away meanwhile
 * does not count.
 */
export async function directorySize(path: string): Promise<number> {
  const seen = new Set<number>();
  let bytes = 0;
  async function walk(folder: string, device: number): Promise<void> {
    for (const name of await readdir(folder).catch(() => [])) {
      const each = join(folder, name);
      const stats = await lstat(each).catch(() => undefined);
      if (!stats || stats.dev !== device) continue;
      if (stats.nlink > 1 && !stats.isDirectory()) {
        if (seen.has(stats.ino)) continue;
        seen.add(stats.ino);
      }
      bytes += stats.blocks * 512;
      if (stats.isDirectory()) await walk(each, device);
    }
  }
  const root = await lstat(path).catch(() => undefined);
  if (root) await walk(path, root.dev);
  return bytes;
}

/** The permissions of a file, or undefined when there is none. */
export function fileMode(path: string): number | undefined {
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  return mode === undefined ? undefined : mode & 0o777;
}

/** A file's size in bytes; 0 when there is none. */
export function fileSize(path: string): number {
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0;
}

function isMissing(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'ENOENT' || code === 'ENOTDIR';
}
