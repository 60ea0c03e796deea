import { readdir, readlink } from 'node:fs/promises';
import { readKernelFile } from './disk.ts';

/** The first pid namespace of a kernel: whoever is in it sees every process of the machine. */
const ALL_PROCESSES = 'pid:[4026531836]';

/**
 * The users who started the processes that listen on an abstract socket, by what the kernel shows: Node does not ask for the
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
    if (/^\d+$/.test(pid) && (await holds(pid, inodes))) {
      const status = await readKernelFile(`/proc/${pid}/status`);
      if (status !== undefined) users.push(startedBy(status));
    }
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

/**
 * The real user in the status of a process, as the kernel writes it; -1 where there is none. The effective one says nothing: any
 * user can have a program such as su hold an open socket.
 */
export const startedBy = (status: string): number => Number(/^Uid:\t(\d+)\t/m.exec(status)?.[1] ?? -1);
