import { readdir, readlink, stat } from 'node:fs/promises';
import { readKernelFile } from './disk.ts';

/** The first pid namespace of a kernel: whoever is in it sees every process of the machine. */
const ALL_PROCESSES = 'pid:[4026531836]';

/**
 * The users of the processes that listen on an abstract socket, by what the kernel shows: Node does not ask for the
 * credentials of a peer. Undefined where they cannot be known, as for a process outside the pid namespace of this one.
 */
export async function listenersOf(name: string): Promise<number[] | undefined> {
  const inodes = new Set(
    ((await readKernelFile('/proc/net/unix')) ?? '').split('\n').flatMap((line) => {
      // Num RefCount Protocol Flags Type St Inode Path; the flag is SO_ACCEPTCON, and an abstract name begins with @.
      const [, , , flags, , , inode, path] = line.trim().split(/\s+/, 8);
      return path === `@${name}` && flags === '00010000' ? [`socket:[${inode}]`] : [];
    }),
  );
  const users: number[] = [];
  for (const pid of await readdir('/proc'))
    if (/^\d+$/.test(pid) && (await holds(pid, inodes))) users.push(await userOf(pid));
  if (users.length > 0) return users;
  const seesAll = process.getuid?.() === 0 && (await readlink('/proc/self/ns/pid').catch(() => '')) === ALL_PROCESSES;
  return seesAll ? [] : undefined;
}

async function holds(pid: string, sockets: ReadonlySet<string>): Promise<boolean> {
  const folder = `/proc/${pid}/fd`;
  // A process that has ended, or that this user may not look at, has none.
  for (const fd of await readdir(folder).catch(() => []))
    if (sockets.has(await readlink(`${folder}/${fd}`).catch(() => ''))) return true;
  return false;
}

/** The user that a process runs as; one that has ended is nobody's. */
async function userOf(pid: string): Promise<number> {
  return (await stat(`/proc/${pid}`).catch(() => undefined))?.uid ?? -1;
}
