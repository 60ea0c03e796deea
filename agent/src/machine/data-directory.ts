import { join } from 'node:path';
import { directoryOwner, exists, fileSystemSize, giveDirectory, listDirectory, makeDirectory } from './disk.ts';
import { errorText } from './log.ts';

const PRIVATE = 0o700;
/** Group and others, who have no business in a directory with keys, passwords and volumes of any mode. */
const OTHERS = 0o077;
/** Members of root's group may look into volumes. */
const VOLUMES = 0o750;

/** What the agent makes in its data directory, and what a new file system has. */
const OWN =
  /^(agent\.(db|lock)(-.*|\..*)?|(identity|local-api)\.json(\..*)?|volumes|artifacts|local|programs|run|lost\+found|\.room-\d+)$/;

/**
 * Keeps other users of the machine out of the data directory: what lies in it is protected by this directory alone. One that
 * does not exist is made. One that is there and open, as an administrator or a mount may have made it, is closed if it
 * belongs to the agent's user and is empty or holds only what the agent makes; `directoryProblem` tells of any other.
 */
export function closeDirectory(directory: string): void {
  try {
    if (!makeDirectory(directory, PRIVATE) && isOwn(directory)) giveDirectory(directory, PRIVATE);
    const volumes = join(directory, 'volumes');
    if (!makeDirectory(volumes, VOLUMES) && (directoryOwner(volumes).mode & ~VOLUMES) !== 0)
      giveDirectory(volumes, VOLUMES);
  } catch {
    // A disk that takes no writes; the problem below stays until it does.
  }
}

/** Why other users of the machine may get at the agent's data, for people, or undefined. */
export function directoryProblem(directory: string): string | undefined {
  try {
    if (!exists(directory)) return undefined;
    const { uid, mode } = directoryOwner(directory);
    if (uid !== process.getuid?.())
      return `${directory} belongs to user ${uid}, who can read and change what the agent keeps; it has to belong to the user of the agent`;
    if ((mode & OTHERS) === 0) return undefined;
    return `${directory} is open to other users (mode ${mode.toString(8)}) and holds files that are not the agent's, so that its mode was left; chmod 700 it, or give the agent a diskDirectory of its own`;
  } catch (error) {
    return `${directory} cannot be looked at: ${errorText(error)}`;
  }
}

/** With fewer bytes free a write of the agent's own state may fail. */
const LEAST_ROOM = 1024 * 1024;

/** That the disk of the agent's data is full, for people, before something has to be written; undefined where it is not. */
export function roomProblem(directory: string, size = fileSystemSize(directory)): string | undefined {
  if (!size || size.available >= LEAST_ROOM) return undefined;
  return `the disk of ${directory} is full: what has to be saved here is refused; make room, skerry-agent doctor says how`;
}

function isOwn(directory: string): boolean {
  const { uid, mode } = directoryOwner(directory);
  return (
    uid === process.getuid?.() && (mode & OTHERS) !== 0 && listDirectory(directory).every((name) => OWN.test(name))
  );
}
