import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { syncPath, writeSynced } from './disk.ts';

/**
 * A directory whose content changes as a whole, also for a container that has it mounted:
 *
 *     ..data -> ..<version>      the switch: one rename of a link
 *     ..<version>/<path>         the content
 *     <name> -> ..data/<name>    what a reader opens
 *
 * All links are relative, so that they lead to the same place inside of a container. The links of new names are made
 * before the switch and those of old names removed after it: until then they lead nowhere, and cannot be opened. A process
 * or a machine that ends at any point leaves the old content or the new content; the next write removes what it left over.
 */

/** Files by their paths. */
export type Tree = ReadonlyMap<string, Uint8Array>;

const SWITCH = '..data';
const NEXT_SWITCH = '..data-next';
const DIRECTORY = 0o755;
const FILE = 0o644;

/** Replaces the content of a directory, which is made when it is missing. When it throws, the old content is there. */
export function writeTree(directory: string, tree: Tree): void {
  makeOpenDirectory(directory);
  const version = `..${randomBytes(8).toString('hex')}`;
  const names = namesOf(tree);
  try {
    writeFiles(join(directory, version), tree);
    for (const name of names) link(directory, name, join(SWITCH, name));
    link(directory, NEXT_SWITCH, version);
    syncPath(directory);
    renameSync(join(directory, NEXT_SWITCH), join(directory, SWITCH));
    syncPath(directory);
  } catch (error) {
    // On a full disk every byte counts.
    attempt(() => tidy(directory));
    throw error;
  }
  // The new content is there; what is left over is removed at the next write.
  attempt(() => tidy(directory, names));
}

/** Whether a directory has this content, the links to it, and nothing left over. */
export function holdsTree(directory: string, tree: Tree): boolean {
  const present = readTree(directory);
  if (present?.size !== tree.size) return false;
  for (const [path, content] of tree) if (!present.get(path)?.equals(content)) return false;
  const names = namesOf(tree);
  return (
    readdirSync(directory).length === names.size + 2 &&
    [...names].every((name) => readLink(join(directory, name)) === join(SWITCH, name))
  );
}

/** The first names of paths. */
function namesOf(tree: Tree): Set<string> {
  return new Set([...tree.keys()].map((path) => path.split('/', 1)[0] as string));
}

/** The content of a directory that `writeTree` wrote; undefined where there is none, or where it cannot be read. */
export function readTree(directory: string): Map<string, Buffer> | undefined {
  const version = readLink(join(directory, SWITCH));
  if (version === undefined || version.includes('/')) return undefined;
  const tree = new Map<string, Buffer>();
  try {
    for (const path of filesBelow(join(directory, version)))
      tree.set(path, readFileSync(join(directory, version, path)));
    return tree;
  } catch {
    return undefined;
  }
}

/** When the content of a directory was switched last, Unix ms; undefined where there is none. */
export function switchedAt(directory: string): number | undefined {
  const found = lstatSync(join(directory, SWITCH), { throwIfNoEntry: false });
  return found && Math.round(found.mtimeMs);
}

/** Writes a file that never changes: it is there as a whole, or not at all. One that is there stays. */
export function writeFileOnce(path: string, content: Uint8Array): void {
  if (lstatSync(path, { throwIfNoEntry: false })) return;
  const temporary = `${path}.tmp`;
  try {
    writeSynced(temporary, content, FILE);
    renameSync(temporary, path);
  } catch (error) {
    attempt(() => rmSync(temporary, { force: true }));
    throw error;
  }
  syncPath(dirname(path));
}

/** Makes a directory that its owner alone lists; its group may pass. */
export function makeInnerDirectory(path: string): void {
  if (mkdirSync(path, { recursive: true, mode: 0o750 }) !== undefined) chmodSync(path, 0o750);
}

function writeFiles(directory: string, tree: Tree): void {
  const made = new Set([directory]);
  makeOpenDirectory(directory);
  for (const [path, content] of tree) {
    const parents = path.split('/').slice(0, -1);
    for (const [index] of parents.entries()) {
      const parent = join(directory, ...parents.slice(0, index + 1));
      if (made.has(parent)) continue;
      makeOpenDirectory(parent);
      made.add(parent);
    }
    writeSynced(join(directory, path), content, FILE);
  }
  for (const each of made) syncPath(each);
}

/** Containers read it as any user, whatever the process's umask is. */
function makeOpenDirectory(path: string): void {
  if (mkdirSync(path, { recursive: true, mode: DIRECTORY }) !== undefined) chmodSync(path, DIRECTORY);
}

/** Makes a link; what is there instead is removed. */
function link(directory: string, name: string, target: string): void {
  const path = join(directory, name);
  if (readLink(path) === target) return;
  rmSync(path, { recursive: true, force: true });
  symlinkSync(target, path);
}

/** Removes all but the present content, and the links of other names where they are given. */
function tidy(directory: string, names?: ReadonlySet<string>): void {
  const version = readLink(join(directory, SWITCH));
  for (const name of readdirSync(directory)) {
    const isMachinesOwn = name.startsWith('..');
    const isKept = isMachinesOwn ? name === SWITCH || name === version : (names?.has(name) ?? true);
    if (!isKept) rmSync(join(directory, name), { recursive: true, force: true });
  }
}

function filesBelow(directory: string, prefix = ''): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = `${prefix}${entry.name}`;
    return entry.isDirectory() ? filesBelow(join(directory, entry.name), `${path}/`) : [path];
  });
}

function readLink(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}

function attempt(act: () => void): void {
  try {
    act();
  } catch {}
}
