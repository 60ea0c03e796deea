import { join } from 'node:path';
import {
  holdsTree,
  makeInnerDirectory,
  readTree,
  switchedAt,
  type Tree,
  writeFileOnce,
  writeTree,
} from './atomic-directory.ts';
import { exists, listDirectory, removePath } from './disk.ts';

/** What the agent writes for its containers to mount, by paths below the directory of volumes. */
export interface MountedFiles {
  /** the paths in a folder */
  list(folder: string): string[];
  has(path: string): boolean;
  read(path: string): Tree | undefined;
  /** Makes a directory have exactly this content: the old content, or the new one, is there at any moment. */
  write(path: string, tree: Tree): void;
  /** Makes a file that never changes. */
  writeOnce(path: string, content: Uint8Array): void;
  /** when the content of a directory changed last, Unix ms */
  changedAt(path: string): number | undefined;
  remove(path: string): void;
}

/** The files of this machine. */
export function filesOnDisk(directory: string): MountedFiles {
  const at = (path: string) => join(directory, path);
  const makeFolder = (path: string) => makeInnerDirectory(at(path.split('/', 1)[0] as string));
  return {
    list: (folder) => listDirectory(at(folder)).map((name) => `${folder}/${name}`),
    has: (path) => exists(at(path)),
    read: (path) => readTree(at(path)),
    write: (path, tree) => {
      // Nothing is written to the disk while nothing changes.
      if (holdsTree(at(path), tree)) return;
      makeFolder(path);
      writeTree(at(path), tree);
    },
    writeOnce: (path, content) => {
      makeFolder(path);
      writeFileOnce(at(path), content);
    },
    changedAt: (path) => switchedAt(at(path)),
    remove: (path) => removePath(at(path)),
  };
}
