import { readText } from './disk.ts';

/**
 * Files that an engine mounts from a folder of the container, whose name is the container's id. Where a container is in the network
 * of another one, all but the first are that one's.
 */
const MOUNTED = ['/run/.containerenv', '/etc/hostname', '/etc/hosts', '/etc/resolv.conf'] as const;

/**
 * The id of the container that a process runs in, by its mountinfo: that of docker or podman; undefined outside of any. In docker
 * it is that of the other container, for a process in the network of one.
 */
export function containerIdOf(mountinfo: string): string | undefined {
  const ids = new Map<string, string | undefined>();
  for (const line of mountinfo.split('\n')) {
    const [, , , root = '', place = ''] = line.split(' ');
    ids.set(place, /\/([0-9a-f]{64})\//.exec(root)?.[1]);
  }
  return MOUNTED.map((place) => ids.get(place)).find((id) => id !== undefined);
}

/** The id of the container that this process runs in. */
export function ownContainerId(): string | undefined {
  try {
    return containerIdOf(readText('/proc/self/mountinfo') ?? '');
  } catch {
    return undefined;
  }
}
