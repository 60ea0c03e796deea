import { linkTarget, listDirectory, mountsOf } from './disk.ts';

/** A mount, in whatever namespace of this machine. */
export interface MountInUse {
  /** the root of the mount, as `locate` calls it */
  place: string;
  /** where this process sees it; absent in other namespaces */
  point?: string;
  /** for people */
  by: string;
}

/**
 * The mounts of this machine: of this process, and in the namespaces of others, such as containers of whatever engine.
 * A process whose mounts may not be looked at is left out.
 */
export function mountsInUse(): MountInUse[] {
  const own = mountsOf('self').map(({ point, place }) => ({ point, place, by: `the mount at ${point}` }));
  const seen = new Set([namespaceOf('self')]);
  const others = listDirectory('/proc').flatMap((pid) => {
    if (!/^\d+$/.test(pid)) return [];
    const namespace = namespaceOf(pid);
    if (namespace === undefined || seen.has(namespace)) return [];
    seen.add(namespace);
    return mountsIn(pid).map(({ place }) => ({ place, by: `the process ${pid}` }));
  });
  return [...own, ...others];
}

function namespaceOf(pid: string): string | undefined {
  try {
    return linkTarget(`/proc/${pid}/ns/mnt`);
  } catch {
    return undefined;
  }
}

function mountsIn(pid: string): ReturnType<typeof mountsOf> {
  try {
    return mountsOf(pid);
  } catch {
    return [];
  }
}
