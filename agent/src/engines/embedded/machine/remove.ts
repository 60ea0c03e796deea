import { execFile } from 'node:child_process';
import { rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { exists, listDirectory, mountsBelow, readText, removePath } from '../../../machine/disk.ts';
import { errorText } from '../../../machine/log.ts';
import { rulesToRemove } from './packet-rules.ts';
import type { ContainerdPlaces } from './places.ts';
import { shimsOf } from './shims.ts';
import type { StartedContainerd } from './started.ts';

export interface RemovalOptions {
  places: ContainerdPlaces;
  /** of the last start; absent where there was none */
  started: StartedContainerd | undefined;
  /** ms that containers have to end by themselves */
  grace: number;
  /** whether images and records of containers go as well */
  purge: boolean;
}

const CGROUPS = '/sys/fs/cgroup';
/** Where the library of the CNI plugins records networks of containers, whoever uses it. */
const CNI_RESULTS = '/var/lib/cni/results';
/** Where containerd 1 has the sockets of shims, whatever its own folders are. */
const SHARED_STATE = '/run/containerd';
const STEP_MS = 50;
const PATIENCE_MS = 10_000;

/**
 * Ends all that a private containerd has left on its machine, without asking it: it may have been killed. Ends containers and
 * shims, and removes mounts, namespaces, the bridge, rules of the packet filter, control groups and files. Returns what could
 * not be removed, for people. The containerd itself must have ended.
 */
export async function removeContainerd({ places, started, grace, purge }: RemovalOptions): Promise<string[]> {
  const left: string[] = [];
  const attempt = async (what: string, act: () => unknown) => {
    try {
      await act();
    } catch (error) {
      left.push(`${what}: ${errorText(error)}`);
    }
  };
  const sockets = shimSockets(places.state);
  await attempt('containers', () => endProcesses(() => containerProcesses(places.cgroupParent), grace));
  await attempt('shims', () => endProcesses(() => shimsOf(processes(), places.socket), 0));
  for (const point of [...mountsBelow(places.state), ...mountsBelow(places.root)].reverse())
    await attempt(point, () => run('umount', [point]).catch(() => run('umount', ['--lazy', point])));
  if (exists(`/sys/class/net/${places.network}`))
    await attempt(`bridge ${places.network}`, () => run('ip', ['link', 'delete', places.network]));
  if (started)
    for (const program of ['iptables', 'ip6tables'])
      await attempt(`rules of ${program}`, () => removeRules(program, started));
  // A slice stays active without a process in it.
  if (places.cgroupParent.endsWith('.slice'))
    await attempt(places.cgroupParent, () => run('systemctl', ['stop', places.cgroupParent]));
  await attempt(`control groups ${places.cgroupParent}`, () => removeCgroups(places.cgroupParent));
  for (const path of [...sockets, ...resultsOf(places.network), places.state, ...(purge ? [places.root] : [])])
    await attempt(path, () => removePath(path));
  for (const folder of [CNI_RESULTS, join(CNI_RESULTS, '..'), join(SHARED_STATE, 's'), SHARED_STATE])
    removeEmpty(folder);
  return left;
}

/** The processes in the control groups of containers, in whatever hierarchy. */
const containerProcesses = (parent: string): number[] => [
  ...new Set(cgroupFolders(parent).flatMap((folder) => allBelow(folder).flatMap(processesIn))),
];

const cgroupFolders = (parent: string): string[] =>
  [CGROUPS, ...listDirectory(CGROUPS).map((name) => join(CGROUPS, name))]
    .map((root) => join(root, parent))
    .filter((path) => exists(join(path, 'cgroup.procs')));

function allBelow(folder: string): string[] {
  const inside = listDirectory(folder)
    .map((name) => join(folder, name))
    .filter((path) => exists(join(path, 'cgroup.procs')));
  return [folder, ...inside.flatMap(allBelow)];
}

const processesIn = (folder: string): number[] =>
  (textOf(join(folder, 'cgroup.procs')).match(/\d+/g) ?? []).map(Number);

const processes = () =>
  listDirectory('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), command: textOf(`/proc/${name}/cmdline`).split('\0').slice(0, -1) }));

/** Sends SIGTERM, where there is a grace, and SIGKILL until none is left. */
async function endProcesses(running: () => number[], grace: number): Promise<void> {
  const send = (signal: NodeJS.Signals) => {
    for (const pid of running())
      try {
        process.kill(pid, signal);
      } catch {
        // It has ended.
      }
  };
  if (grace > 0) send('SIGTERM');
  for (let waited = 0; running().length > 0; waited += STEP_MS) {
    if (waited >= grace) send('SIGKILL');
    if (waited >= grace + PATIENCE_MS) throw new Error(`the processes ${running().join(', ')} do not end`);
    await sleep(STEP_MS);
  }
}

/** The sockets of shims, which each container's folder names. */
function shimSockets(state: string): string[] {
  const tasks = join(state, 'io.containerd.runtime.v2.task');
  const bundles = listDirectory(tasks).flatMap((space) =>
    listDirectory(join(tasks, space)).map((id) => join(tasks, space, id)),
  );
  return bundles.flatMap((bundle) => {
    const [, path] =
      /^unix:\/\/(\/run\/containerd\/s\/[0-9a-f]{64})$/.exec(textOf(join(bundle, 'address')).trim()) ?? [];
    return path === undefined ? [] : [path];
  });
}

/** The records of the network for each sandbox, and of its loopback interface, whose network has one name for all of the machine. */
function resultsOf(network: string): string[] {
  const all = listDirectory(CNI_RESULTS);
  const own = all.filter((name) => name.startsWith(`${network}-`));
  const sandboxes = own.map((name) => name.slice(network.length + 1).replace(/-[^-]*$/, ''));
  const loopback = all.filter((name) => sandboxes.some((id) => name === `cni-loopback-${id}-lo`));
  return [...own, ...loopback].map((name) => join(CNI_RESULTS, name));
}

async function removeRules(program: string, { network }: StartedContainerd): Promise<void> {
  const saved = await run(`${program}-save`, []).catch((error: NodeJS.ErrnoException) => {
    // A machine without the program has no rules of it.
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  const changes = rulesToRemove(saved, network);
  if (changes !== '') await run(`${program}-restore`, ['--noflush', '--wait', '5'], changes);
}

/** The lowest first: a group goes when none is below it. */
function removeCgroups(parent: string): void {
  for (const folder of cgroupFolders(parent)) for (const each of allBelow(folder).reverse()) rmdirSync(each);
}

function removeEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // Another program has something in it.
  }
}

/** The text of a file of the kernel; empty where its process has ended. */
function textOf(path: string): string {
  try {
    return readText(path) ?? '';
  } catch {
    return '';
  }
}

function run(program: string, args: readonly string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(
      program,
      args,
      { timeout: PATIENCE_MS, maxBuffer: 64 * 1024 ** 2 },
      (error, stdout, stderr) =>
        error
          ? reject(Object.assign(error, { message: `${program} ${args.join(' ')}: ${stderr.trim() || error.message}` }))
          : resolve(stdout),
    );
    child.stdin?.on('error', () => {});
    child.stdin?.end(input);
  });
}
