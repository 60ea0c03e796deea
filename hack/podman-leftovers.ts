import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { RUN_FOLDERS } from './paths.ts';
import { removePodmanNetworks } from './podman-networks.ts';
import { processStartTime, recordedRuns } from './process.ts';
import { waitFor } from './wait.ts';

/** The process that started a private engine: a pid file in its run folder, written before everything else. */
export const OWNER = 'owner';

/** Where all podmans of a machine that root runs keep the addresses of their containers, and the records of their name server. */
export const PODMAN_NETWORKS = '/run/containers/networks';
const RECORDS = join(PODMAN_NETWORKS, 'aardvark-dns');

/**
 * Removes what podmans of killed runs have left to all other podmans of the machine: containers that run on, networks, and records of
 * names. A record of a deleted network makes the name server answer at an address that no longer exists, and containers of a
 * network with the same name then find no other. Records stay while any podman of the machine serves or runs a container.
 */
export async function removePodmanLeftovers(records: string = RECORDS): Promise<void> {
  const found = processes();
  const orphans = found.filter(isOrphan);
  // A keeper whose container has ended takes the network away and ends.
  for (const { pid } of orphans) for (const child of found) if (child.parent === pid) kill(child.pid);
  if (orphans.length > 0) {
    const gone = () => orphans.every(({ pid }) => processStartTime(pid) === undefined);
    await waitFor(gone, { what: 'the containers of a killed run to end' });
  }
  await removePodmanNetworks();
  const left = processes();
  if (left.some((each) => isKeeper(each) || isService(each))) return;
  for (const { pid, command } of left) if (basename(command[0] ?? '') === 'aardvark-dns') kill(pid);
  rmSync(records, { recursive: true, force: true });
}

interface Process {
  pid: number;
  parent: number;
  command: readonly string[];
}

const isKeeper = ({ command }: Process) => basename(command[0] ?? '') === 'conmon';
const isService = ({ command }: Process) =>
  basename(command[0] ?? '') === 'podman' && command.includes('system') && command.includes('service');

/** Whether it keeps a container of a private podman whose run was killed. Containers of other podmans are left alone. */
function isOrphan(each: Process): boolean {
  const folder = each.command.find((word) => word.startsWith(`${RUN_FOLDERS}/`) && word.endsWith('/state'));
  return isKeeper(each) && folder !== undefined && !recordedRuns(dirname(folder), OWNER);
}

function processes(): Process[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => {
      const stat = read(join('/proc', name, 'stat'));
      const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      return { pid: Number(name), parent, command: read(join('/proc', name, 'cmdline')).split('\0') };
    });
}

/** Empty where the process has ended meanwhile. */
function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended by itself.
  }
}
