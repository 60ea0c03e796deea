import { readText } from './disk.ts';

/** Files that an engine mounts from a folder of the container, whose name is the container's id. */
const MOUNTED = new Set(['/etc/hostname', '/etc/hosts', '/etc/resolv.conf', '/run/.containerenv']);

/** The id of the container that a process runs in, by its mountinfo: that of docker or podman; undefined outside of any. */
export function containerIdOf(mountinfo: string): string | undefined {
  for (const line of mountinfo.split('\n')) {
    const [, , , root = '', place = ''] = line.split(' ');
    const id = MOUNTED.has(place) ? /\/([0-9a-f]{64})\//.exec(root)?.[1] : undefined;
    if (id) return id;
  }
  return undefined;
}

/** The id of the container that this process runs in. */
export function ownContainerId(): string | undefined {
  try {
    return containerIdOf(readText('/proc/self/mountinfo') ?? '');
  } catch {
    return undefined;
  }
}
