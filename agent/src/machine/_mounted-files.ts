import type { Tree } from './atomic-directory.ts';
import type { MountedFiles } from './mounted-files.ts';

/** Files in memory. */
export function filesInMemory(now: () => number = () => 0): MountedFiles {
  const files = new Map<string, { tree: Tree; at: number }>();
  return {
    list: (folder) => [...files.keys()].filter((path) => path.startsWith(`${folder}/`)).sort(),
    has: (path) => files.has(path),
    read: (path) => files.get(path)?.tree,
    write: (path, tree) => void files.set(path, { tree, at: now() }),
    writeOnce: (path, content) => void files.set(path, { tree: new Map([['', content]]), at: now() }),
    changedAt: (path) => files.get(path)?.at,
    remove: (path) => void files.delete(path),
  };
}
