import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { waitFor } from '../wait.ts';

/** A cgroup that kubelet puts its pods below, in each hierarchy of the machine. */
export interface Cgroups {
  /** `/skerry-1a2b3c4d` */
  readonly root: string;
  /** Removes it with everything below, once the processes in it have ended. */
  remove(): Promise<void>;
}

const MOUNT = '/sys/fs/cgroup';

export function cgroupsOf(name: string): Cgroups {
  const folders = hierarchies().map((hierarchy) => join(hierarchy, name));
  for (const folder of folders) {
    mkdirSync(folder, { recursive: true });
    // The first version of cgroups has no processors and memory until they are set.
    for (const file of ['cpuset.cpus', 'cpuset.mems']) {
      const parent = join(folder, '..', file);
      if (existsSync(parent) && folder.includes('/cpuset')) writeFileSync(join(folder, file), readFileSync(parent));
    }
  }
  return {
    root: `/${name}`,
    async remove() {
      const gone = () => folders.map(removeTree).every(Boolean);
      await waitFor(gone, { what: `the cgroups ${name} to be empty`, timeoutMs: 10_000 });
    },
  };
}

/** Where the hierarchies are mounted: one in the second version of cgroups, one for each resource in the first. */
function hierarchies(): string[] {
  if (existsSync(join(MOUNT, 'cgroup.controllers'))) {
    for (const controller of ['cpuset', 'cpu', 'io', 'memory', 'pids', 'hugetlb']) {
      try {
        writeFileSync(join(MOUNT, 'cgroup.subtree_control'), `+${controller}`);
      } catch {
        // The kernel does not have it.
      }
    }
    return [MOUNT];
  }
  return readdirSync(MOUNT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(MOUNT, entry.name));
}

/** Whether nothing is left. */
function removeTree(folder: string): boolean {
  if (!existsSync(folder)) return true;
  for (const entry of readdirSync(folder, { withFileTypes: true }))
    if (entry.isDirectory()) removeTree(join(folder, entry.name));
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}
