import { join } from 'node:path';
import type { ContainerSpec } from '../domain/engine.ts';
import { directoryOwner, followLinks, giveDirectory, makeDirectory } from '../system/disk.ts';

/** Whom a container runs as, and a directory belongs to. */
export interface Owner {
  uid: number;
  gid: number;
}

/**
 * Makes what a container binds and is not there yet, as `docker run -v` does, and sees to it that it may write to
 * volumes of ours. Nobody else gets to those, since the directory above is the agent's alone.
 *
 *     private   belongs to the user that its microservice runs as now, with mode 755; with mode 777 to root where that
 *               user is not known, because the image names it
 *     shared    anybody who mounts it may write to it: mode 777, as an emptyDir of Kubernetes. Files in it belong to
 *               whoever wrote them
 *
 * What is in a volume never changes hands.
 */
export function prepareMounts(
  spec: Pick<ContainerSpec, 'mounts' | 'user'>,
  runAsGroup: string | undefined,
  volumesDirectory: string,
): void {
  const user = ownerOf(spec.user, runAsGroup);
  for (const mount of spec.mounts) {
    const own = mount.source.startsWith(`${volumesDirectory}/`);
    // What was looked at is what is bound: a link that changes later leads nowhere else.
    if (!own) mount.source = followLinks(mount.source);
    const { source } = mount;
    const made = makeDirectory(source, 0o755);
    if (!own) continue;
    const isShared = source.startsWith(`${join(volumesDirectory, 'shared')}/`);
    const before = made ? undefined : directoryOwner(source);
    if (isShared || user === undefined) {
      if (before === undefined || (isShared && !mayWrite(user, before))) giveDirectory(source, 0o777);
    } else if (before === undefined) giveDirectory(source, 0o755, user);
    else if (!mayWrite(user, before)) giveDirectory(source, before.mode, user);
  }
}

function ownerOf(user = '', runAsGroup: string | undefined): Owner | undefined {
  const [, uid, gid] = /^(\d+)(?::(\d+))?$/.exec(user) ?? [];
  return uid === undefined ? undefined : { uid: Number(uid), gid: Number(gid ?? runAsGroup ?? uid) };
}

/** Whether a directory's mode lets a user write; one who is not known is taken for any. */
export function mayWrite(user: Owner | undefined, { uid, gid, mode }: Owner & { mode: number }): boolean {
  if (user?.uid === 0) return true;
  const bits = user?.uid === uid ? mode >> 6 : user?.gid === gid ? mode >> 3 : mode;
  return (bits & 0o3) === 0o3;
}
