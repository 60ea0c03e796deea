import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { createConnection } from 'node:net';
import { delimiter, dirname, join } from 'node:path';
import { containerdPlaces } from '../agent/src/engines/embedded/machine/places.ts';
import { prepareContainerd } from '../agent/src/engines/embedded/machine/prepare.ts';
import { removeContainerd } from '../agent/src/engines/embedded/machine/remove.ts';
import { type StartedContainerd, startedAt } from '../agent/src/engines/embedded/machine/started.ts';
import { installPackages, isThere } from './apt.ts';
import { RUN_FOLDERS, runFolder, shortHash } from './paths.ts';
import { OWNER } from './podman-leftovers.ts';
import { type Daemon, recordedRuns, startDaemon, stopLeftovers, writePidFile } from './process.ts';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';
import { waitFor } from './wait.ts';

/** `1.6` is Debian's, `2` is built from its pinned Go module. */
export type ContainerdRelease = '1.6' | '2';

export interface ContainerdOptions {
  /** Folder of images, records and logs. */
  dir: string;
  /** SKERRY_CONTAINERD, or 1.6, unless a test names one */
  version?: ContainerdRelease;
  /** the network of its containers; the first that is free when absent */
  bridgeCidr?: string;
  log?: Log;
}

/** A private containerd, prepared as the agent's unit prepares the agent's own. */
export interface Containerd extends AsyncDisposable {
  readonly socket: string;
  /** `unix://...` */
  readonly url: string;
  readonly started: StartedContainerd;
  readonly pid: number;
  readonly logFile: string;
  /** Ends containerd alone, as a crash does; its containers run on. */
  kill(): Promise<void>;
  /** Ends containerd alone, as its unit does; its containers run on. */
  halt(): Promise<void>;
  /** Starts it again, with another version where one is named. */
  start(version?: ContainerdRelease): Promise<void>;
  signal(signal: NodeJS.Signals): void;
  /** Ends it with all that it has, as the removal of the agent's package does. */
  stop(): Promise<void>;
}

const PACKAGES = ['containerd', 'runc', 'containernetworking-plugins', 'iptables'] as const;
const PROGRAMS = ['/usr/bin/containerd', '/usr/sbin/runc', '/usr/lib/cni/bridge', '/usr/sbin/iptables'] as const;
const MODULE = 'github.com/containerd/containerd/v2/cmd';
/** No test uses these, and they are most of the work of the compiler. */
const TAGS = ['no_aufs', 'no_btrfs', 'no_devmapper', 'no_zfs'] as const;

/** Needs root. */
export async function startContainerd({
  dir,
  version: first = (process.env.SKERRY_CONTAINERD as ContainerdRelease | undefined) ?? '1.6',
  bridgeCidr,
  log = () => {},
}: ContainerdOptions): Promise<Containerd> {
  await installPackages({
    packages: PACKAGES,
    missing: () => PACKAGES.filter((_, at) => !isThere(PROGRAMS[at] as string)).join(', '),
    why: 'A private containerd cannot be started',
    elsewhere: 'https://github.com/containerd/containerd',
    log,
  });
  const options = { root: join(dir, 'containerd'), state: runFolder(dir), name: `sk${shortHash(dir)}`, systemd: false };
  const places = containerdPlaces(options);
  let daemon: Daemon | undefined;
  let started: StartedContainerd | undefined;

  async function start(version: ContainerdRelease = first): Promise<void> {
    writePidFile(options.state, OWNER, process.pid);
    const programs = version === '1.6' ? undefined : await builtPrograms(log);
    const { command, ...record } = prepareContainerd({
      ...options,
      bridgeCidr,
      programs: [...(programs ? [programs.containerd] : []), secondRuntime(dir)],
    });
    started = record;
    first = version;
    const [program = '', ...args] = command;
    const path = [...(programs ? [dirname(programs.shim)] : []), process.env.PATH, '/usr/sbin', '/sbin'];
    const running = await startDaemon({
      name: 'containerd',
      dir,
      command: program,
      args,
      env: { ...process.env, PATH: path.join(delimiter) },
    });
    daemon = running;
    const answers = async () => {
      running.assertRunning();
      return listens(places.socket);
    };
    await waitFor(answers, { what: `containerd ${version} to listen`, timeoutMs: 30_000, intervalMs: 20 });
  }

  async function stop(): Promise<void> {
    await daemon?.stop();
    const left = await removeContainerd({
      places,
      started: started ?? startedAt(places.socket),
      grace: 0,
      purge: true,
    });
    if (left.length > 0) throw new Error(`containerd left on this machine: ${left.join('; ')}`);
  }

  await stopLeftovers(dir);
  await removeStale();
  log(`Starting a private containerd ${first}`);
  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    socket: places.socket,
    url: `unix://${places.socket}`,
    get started() {
      return started as StartedContainerd;
    },
    get pid() {
      return (daemon as Daemon).pid;
    },
    logFile: join(dir, 'logs', 'containerd.log'),
    kill: async () => daemon?.kill(),
    halt: async () => daemon?.stop(),
    start,
    signal: (signal) => daemon?.signal(signal),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** Containers outlive the run that was killed: the next one ends them, wherever its data is. */
async function removeStale(): Promise<void> {
  for (const hash of existsSync(RUN_FOLDERS) ? readdirSync(RUN_FOLDERS) : []) {
    const state = join(RUN_FOLDERS, hash);
    const started = startedAt(join(state, 'containerd.sock'));
    if (!started || recordedRuns(state, OWNER)) continue;
    const { root, systemd, network } = started;
    const places = containerdPlaces({ root, state, systemd, name: network.name });
    await removeContainerd({ places, started, grace: 0, purge: true });
  }
}

/** A second runtime, so that there is a choice: runc under the name of another program with its command line. */
function secondRuntime(dir: string): string {
  const [folder, runc] = [join(dir, 'runtimes'), '/usr/sbin/runc'];
  const crun = join(folder, 'crun');
  mkdirSync(folder, { recursive: true });
  rmSync(crun, { force: true });
  symlinkSync(runc, crun);
  return crun;
}

/** containerd 2 with its shim. */
async function builtPrograms(log: Log = () => {}): Promise<{ containerd: string; shim: string }> {
  const build = (name: string) => buildTool(name, `${MODULE}/${name}`, { pins: 'containerd', tags: TAGS, log });
  return { containerd: await build('containerd'), shim: await build('containerd-shim-runc-v2') };
}

const listens = (path: string) =>
  new Promise<boolean>((resolve) => {
    const socket = createConnection(path, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(false));
  });
