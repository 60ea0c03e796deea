import { join } from 'node:path';
import { PRIVATE_FOLDER, SHARED_FOLDER } from '../../domain/volume.ts';
import type { ContainerSpec } from '../../engine-port/container-spec.ts';
import { EngineError } from '../../engine-port/error.ts';
import { directoryOwner, exists, followLinks, giveDirectory, makeDirectory } from '../../machine/disk.ts';

/** The user and group that a container runs as, or that a directory belongs to. */
export interface Owner {
  uid: number;
  gid: number;
}

/**
 * Makes the directories that a container binds and that do not exist, as `docker run -v` does, and lets the container
 * write to volumes of this agent. No other user reaches these, since the directory above them is the agent's alone.
 * Returns the mounts with all links followed: what was looked at is what is bound, wherever a link leads later.
 *
 *     private   belongs to the user that its microservice runs as now, with mode 755; with mode 777 to root where that
 *               user is not known, because the image names it
 *     shared    every container that mounts it may write to it: mode 777, as an emptyDir of Kubernetes. A file in it
 *               belongs to the user that wrote it
 *
 * Files in a volume keep their owner. What else lies in the directory of volumes was written by the agent, for reading.
 */
export function prepareMounts(
  spec: Pick<ContainerSpec, 'mounts' | 'user'>,
  runAsGroup: string | undefined,
  volumesDirectory: string,
): ContainerSpec['mounts'] {
  const user = ownerOf(spec.user, runAsGroup);
  return spec.mounts.map((mount) => {
    const isMachinesOwn = mount.source.startsWith(`${volumesDirectory}/`);
    const source = isMachinesOwn ? mount.source : followLinks(mount.source);
    const isVolume = VOLUMES.some((folder) => source.startsWith(`${join(volumesDirectory, folder)}/`));
    if (isMachinesOwn && !isVolume) {
      if (!exists(source)) throw new EngineError('Failed', `${source} is not there`);
      return mount;
    }
    if (isMachinesOwn) makeDirectory(volumesDirectory, 0o750);
    const made = makeDirectory(source, 0o755);
    if (isMachinesOwn) openVolume(source, made, user, volumesDirectory);
    return { ...mount, source };
  });
}

/** Where the volumes of microservices lie, below the directory of volumes. */
const VOLUMES = [PRIVATE_FOLDER, SHARED_FOLDER];

function openVolume(source: string, made: boolean, user: Owner | undefined, volumesDirectory: string): void {
  const isShared = source.startsWith(`${join(volumesDirectory, SHARED_FOLDER)}/`);
  const before = made ? undefined : directoryOwner(source);
  if (isShared || user === undefined) {
    if (before === undefined || (isShared && !mayWrite(user, before))) giveDirectory(source, 0o777);
  } else if (before === undefined) giveDirectory(source, 0o755, user);
  else if (!mayWrite(user, before)) giveDirectory(source, before.mode, user);
}

function ownerOf(user = '', runAsGroup: string | undefined): Owner | undefined {
  const [, uid, gid] = /^(\d+)(?::(\d+))?$/.exec(user) ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid ?? runAsGroup ?? uid) };
}

/** Whether a directory's mode lets a user write; an unknown user counts as any user. */
export function mayWrite(user: Owner | undefined, { uid, gid, mode }: Owner & { mode: number }): boolean {
  if (user?.uid === 0) return true;
  const bits = user?.uid === uid ? mode >> 6 : user?.gid === gid ? mode >> 3 : mode;
  return (bits & 0o3) === 0o3;
}
