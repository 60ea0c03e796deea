import { spawnSync } from 'node:child_process';
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { delimiter, join } from 'node:path';
import { installPackages } from './apt.ts';
import { callEngine, probeEngine } from './engine-api.ts';
import { tail } from './last-words.ts';
import { RUN_FOLDERS, runFolder, shortHash } from './paths.ts';
import { OWNER, PODMAN_NETWORKS, removePodmanLeftovers } from './podman-leftovers.ts';
import { type Again, type Daemon, recordedRuns, startDaemon, stopLeftovers, writePidFile } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

export type EngineKind = 'docker' | 'podman';

export interface EngineOptions {
  /** Folder of images, containers and logs of a private engine. */
  dir: string;
  /** Only this kind is used; by default docker before podman. */
  kind?: EngineKind;
  /** Does not use an engine that runs already: for tests that restart it or list everything that it has. */
  alwaysPrivate?: boolean;
  /**
   * Whether containers of a private engine reach other networks, which needs packet filter rules and IP forwarding on the
   * host. Ports on the host and names between containers work without.
   */
  outbound?: boolean;
  /** Prefix of the command of a private podman, such as `ip netns exec <name>`. */
  within?: readonly string[];
  /** Further arguments of a private engine's program. */
  args?: readonly string[];
  /** `host:port` of a registry without TLS on loopback. Docker accepts all of those; a private podman gets it configured. */
  registry?: string;
  log?: Log;
  /** Starts a private engine again that ends by itself. */
  again?: Again;
}

/** A container engine that answers. */
export interface Engine extends AsyncDisposable {
  readonly kind: EngineKind;
  /** `unix:///...` or `tcp://...` */
  readonly url: string;
  /** Whether it was started by us. */
  readonly private: boolean;
  /** Log of a private engine. */
  readonly logFile?: string;
  /** Ends a private engine as a crash would. */
  kill(): Promise<void>;
  /** Starts a private engine again. */
  start(): Promise<void>;
  /** Stops a private engine and keeps its data; does nothing to any other engine. */
  stop(): Promise<void>;
}

/** Sockets of the engines that a machine may run. */
const SOCKETS: Record<EngineKind, string> = { docker: '/var/run/docker.sock', podman: '/run/podman/podman.sock' };

/** The programs of a private engine. */
const PROGRAMS: Record<EngineKind, string> = { docker: 'dockerd', podman: 'podman' };

/** The Debian packages of the engines; podman needs another one for names on a network. */
const PACKAGES: Record<EngineKind, readonly string[]> = {
  docker: ['docker.io'],
  podman: ['podman', 'netavark', 'aardvark-dns'],
};

/** What a private engine of a kind lacks on this machine. */
function missingParts(kind: EngineKind): string[] {
  const parts = [findProgram(PROGRAMS[kind], process.env) ? '' : PROGRAMS[kind]];
  const folders = ['/usr/libexec/podman', '/usr/lib/podman', '/usr/local/libexec/podman', '/usr/local/lib/podman'];
  if (kind === 'podman')
    for (const helper of ['netavark', 'aardvark-dns'])
      parts.push(folders.some((folder) => existsSync(join(folder, helper))) ? '' : helper);
  return parts.filter(Boolean);
}

/**
 * A container engine: one that runs; else a private one, when one is installed; else, on a Debian-like system as root,
 * the distribution's package is installed and a private one started. SKERRY_ENGINE=docker|podman chooses the kind.
 */
export async function findEngine(options: EngineOptions): Promise<Engine> {
  const { log = () => {} } = options;
  const env = process.env;
  const asked = options.kind ?? (env.SKERRY_ENGINE as EngineKind | undefined);
  if (asked && !PROGRAMS[asked]) throw new Error(`SKERRY_ENGINE is ${asked}; it may be docker or podman`);
  const kinds: EngineKind[] = asked ? [asked] : ['docker', 'podman'];

  if (!options.alwaysPrivate) {
    const running = await findRunning(kinds, env);
    if (running) {
      log(`Using the running ${running.kind} at ${running.url}`);
      return running;
    }
  }

  const kind = kinds.find((each) => findProgram(PROGRAMS[each], env)) ?? (kinds[0] as EngineKind);
  await installPackages({
    packages: [...PACKAGES[kind], 'iptables', 'iproute2'],
    missing: () => missingParts(kind).join(', '),
    why: `No container engine runs here, and a private ${kind} cannot be started`,
    elsewhere: 'https://docs.docker.com/engine/install/',
    log,
  });
  if (process.getuid?.() !== 0) {
    throw new Error(
      `${PROGRAMS[kind]} is installed but does not run, and only root can start a private one. Start it (systemctl start ${kind}) or run this as root.`,
    );
  }
  return kind === 'docker' ? startDocker(options, log) : startPodman(options, log);
}

/** Removes the data of a private engine, with the mounts that a killed engine has left in it. */
export function removeEngineData(dir: string): void {
  removeMounted(runFolder(dir));
  removeMounted(dir);
}

/** Removes a folder and the mounts in it: network namespaces, layers of containers. */
function removeMounted(folder: string): void {
  const mounts = existsSync('/proc/mounts') ? readFileSync('/proc/mounts', 'utf8') : '';
  for (const point of mountsUnder(mounts, folder)) spawnSync('umount', ['-l', point]);
  rmSync(folder, { recursive: true, force: true });
}

/** The mount points inside a folder, innermost first, from the text of /proc/mounts. */
export function mountsUnder(mounts: string, folder: string): string[] {
  return mounts
    .split('\n')
    .map((line) => (line.split(' ')[1] ?? '').replaceAll('\\040', ' '))
    .filter((point) => point.startsWith(`${folder}/`))
    .sort()
    .reverse();
}

/**
 * The `nofile` limit for containers where this process may not raise its own limit to the default of engines (a machine
 * that is itself a container); undefined where that default works.
 */
export function lowNofileLimit(limits: string): { soft: number; hard: number } | undefined {
  const USUAL = 1_048_576;
  const [, soft, hard] = /^Max open files\s+(\d+|unlimited)\s+(\d+|unlimited)/m.exec(limits) ?? [];
  if (!hard || hard === 'unlimited' || Number(hard) >= USUAL) return undefined;
  return { soft: Math.min(Number(soft), Number(hard)), hard: Number(hard) };
}

async function findRunning(kinds: EngineKind[], env: NodeJS.ProcessEnv): Promise<Engine | undefined> {
  const given = env.DOCKER_HOST || undefined;
  const candidates = given ? [given] : kinds.map((kind) => `unix://${SOCKETS[kind]}`);
  for (const url of candidates) {
    const kind = await probeEngine(url);
    if (kind && kinds.includes(kind)) {
      const refuse = async () => {
        throw new Error(`The ${kind} at ${url} is not ours to stop`);
      };
      const leave = async () => {};
      return { kind, url, private: false, kill: refuse, start: refuse, stop: leave, [Symbol.asyncDispose]: leave };
    }
    if (given) throw new Error(`DOCKER_HOST is ${given}, and no ${kinds.join(' or ')} answers there`);
  }
  return undefined;
}

async function startDocker({ dir, outbound = false, args = [], again }: EngineOptions, log: Log): Promise<Engine> {
  const hash = shortHash(dir);
  const run = runFolder(dir);
  const url = `unix://${run}/docker.sock`;
  const bridge = `${BRIDGE_PREFIX}${hash}`;
  const limit = lowNofileLimit(readFileSync('/proc/self/limits', 'utf8'));
  let daemon: Daemon | undefined;

  async function launch(filter: boolean): Promise<void> {
    makeBridge(bridge, hash);
    const running = await startDaemon({
      name: 'dockerd',
      dir,
      // Its own containerd namespaces keep it separate even where it finds the system's containerd.
      command: findProgram('dockerd', process.env) as string,
      args: [
        ...['--host', url, '--data-root', join(dir, 'data'), '--exec-root', join(run, 'exec')],
        ...['--pidfile', join(run, 'docker.pid'), '--config-file', emptyConfig(dir)],
        ...['--containerd-namespace', `skerry-${hash}`, '--containerd-plugins-namespace', `skerry-plugins-${hash}`],
        ...addressPools(hash).flatMap((pool) => ['--default-address-pool', pool]),
        ...['--bridge', bridge, `--iptables=${filter}`, `--ip-forward=${filter}`, '--ip-masq=true'],
        ...(limit ? ['--default-ulimit', `nofile=${limit.soft}:${limit.hard}`] : []),
        ...args,
      ],
      env: { ...process.env, PATH: searchPath(process.env).join(delimiter) },
      deathSignal: 'SIGTERM',
      ...(again && {
        async again(end) {
          if (!(await again(end))) return false;
          await removeRemains();
          return true;
        },
      }),
    });
    daemon = running;
    const ready = async () => {
      running.assertRunning();
      return (await probeEngine(url)) !== undefined;
    };
    await waitFor(ready, { what: 'the private dockerd to answer', timeoutMs: 60_000, intervalMs: 50 });
  }

  /** What a killed dockerd leaves would end the next one. */
  async function removeRemains(): Promise<void> {
    rmSync(join(run, 'docker.pid'), { force: true });
    await containerdEnds(run);
  }

  async function start(): Promise<void> {
    mkdirSync(run, { recursive: true, mode: 0o700 });
    writePidFile(run, OWNER, process.pid);
    removeStaleBridges();
    await removeRemains();
    try {
      await launch(outbound);
    } catch (error) {
      if (!outbound || !tail(daemon?.logFile ?? '', 40).includes('iptables')) throw error;
      log('dockerd cannot set packet filter rules here; its containers will have no way out of this machine');
      await launch(false);
    }
  }

  async function stop(): Promise<void> {
    if (!daemon || daemon.exit()) return;
    const networks = await callEngine<{ Id: string; Driver: string; Options?: Record<string, string> }[]>(
      url,
      'GET',
      '/networks',
    ).catch(() => []);
    await daemon.stop(30_000);
    const bridges = networks
      .filter(({ Driver }) => Driver === 'bridge')
      .map(({ Id, Options }) => Options?.['com.docker.network.bridge.name'] ?? `br-${Id.slice(0, 12)}`);
    // The daemon leaves them; it creates the bridges of its networks again when it starts.
    for (const name of new Set([bridge, ...bridges])) spawnSync('ip', ['link', 'delete', name]);
    removeMounted(run);
  }

  log('Starting a private dockerd');
  await stopLeftovers(dir);
  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  const logFile = join(dir, 'logs', 'dockerd.log');
  const kill = async () => daemon?.kill();
  return { kind: 'docker', url, private: true, logFile, kill, start, stop, [Symbol.asyncDispose]: stop };
}

/**
 * The containerd of a killed dockerd ends by itself a little later; a new dockerd that finds it still running uses it, and
 * fails when it ends.
 */
async function containerdEnds(run: string): Promise<void> {
  const folder = join(run, 'exec', 'containerd');
  const file = join(folder, 'containerd.pid');
  if (!existsSync(file)) return;
  const pid = Number(readFileSync(file, 'utf8'));
  const command = join('/proc', String(pid), 'cmdline');
  const lives = () => {
    try {
      return readFileSync(command, 'utf8').includes(folder);
    } catch {
      return false;
    }
  };
  const ended = async () => !lives() || undefined;
  await waitFor(ended, { what: 'the old containerd to end', timeoutMs: 5_000, intervalMs: 50 }).catch(() => {});
  if (lives()) process.kill(pid, 'SIGKILL');
  await waitFor(ended, { what: 'the killed containerd to end', timeoutMs: 10_000, intervalMs: 50 });
  // The new dockerd reads this file, and a zombie would pass for a containerd that runs, since its pid still exists.
  rmSync(file, { force: true });
}

const BRIDGE_PREFIX = 'skerry-';

/** A killed run leaves its bridge; the next run removes it, wherever its data is. */
function removeStaleBridges(): void {
  for (const name of readdirSync('/sys/class/net')) {
    const [, hash] = /^skerry-([0-9a-f]{8})$/.exec(name) ?? [];
    if (!hash || recordedRuns(join(RUN_FOLDERS, hash), OWNER)) continue;
    spawnSync('ip', ['link', 'delete', name]);
    removeMounted(join(RUN_FOLDERS, hash));
  }
}

/** The machine's own daemon.json is for another daemon. */
function emptyConfig(dir: string): string {
  const file = join(dir, 'daemon.json');
  mkdirSync(dir, { recursive: true });
  writeFileSync(file, '{}\n');
  return file;
}

/**
 * The default bridge of a private dockerd: docker0 may belong to another daemon. The subnet is derived from the folder's
 * name; the next free one is used when it is taken.
 */
function makeBridge(bridge: string, hash: string): void {
  if (existsSync(`/sys/class/net/${bridge}`)) return;
  const used = spawnSync('ip', ['-4', '-o', 'addr'], { encoding: 'utf8' }).stdout ?? '';
  const first = Number.parseInt(hash.slice(0, 2), 16);
  const subnet = Array.from({ length: 256 }, (_, i) => `10.89.${(first + i) % 256}`).find(
    (each) => !used.includes(` ${each}.`),
  );
  for (const args of [
    ['link', 'add', bridge, 'type', 'bridge'],
    ['addr', 'add', `${subnet}.1/24`, 'dev', bridge],
    ['link', 'set', bridge, 'up'],
  ]) {
    const { status, stderr, error } = spawnSync('ip', args, { encoding: 'utf8' });
    if (status !== 0) throw new Error(`ip ${args.join(' ')}: ${stderr?.trim() || error?.message}`);
  }
}

/**
 * The subnets of the networks that a private dockerd creates: 256 from each of two ranges, of which the starts are derived
 * from the folder's name. Docker's own default has 31, and each agent of a test has a network. It skips subnets that
 * overlap with a route of the machine: of the second range all do where bridges of other dockerds are left.
 */
function addressPools(hash: string): string[] {
  const number = Number.parseInt(hash.slice(2, 4), 16);
  return [200 + (number % 50), 16 + (number % 16)].map(
    (second, i) => `base=${i === 0 ? 10 : 172}.${second}.0.0/16,size=24`,
  );
}

/**
 * The prefix of a podman in a network namespace of its own. All podmans that root runs keep the addresses and names of their containers in one
 * folder, and share the name server that the first of them started: it does not serve the network namespace of another podman.
 */
function ownNetworkRecords(): string[] {
  const script = `mkdir -p ${PODMAN_NETWORKS} && mount -t tmpfs tmpfs ${PODMAN_NETWORKS} && exec "$@"`;
  return ['unshare', '--mount', '--propagation', 'slave', 'sh', '-c', script, 'sh'];
}

async function startPodman({ dir, registry, within = [], args = [], again }: EngineOptions, log: Log): Promise<Engine> {
  const run = runFolder(dir);
  const url = `unix://${run}/podman.sock`;
  let daemon: Daemon | undefined;
  const runtime = ['crun', 'runc'].find((name) => findProgram(name, process.env));

  async function start(): Promise<void> {
    mkdirSync(run, { recursive: true, mode: 0o700 });
    mkdirSync(dir, { recursive: true });
    writePidFile(run, OWNER, process.pid);
    rmSync(join(run, 'podman.sock'), { force: true });
    const registries = join(dir, 'registries.conf');
    writeFileSync(registries, registry ? `[[registry]]\nlocation = "${registry}"\ninsecure = true\n` : '');
    const config = join(dir, 'containers.conf');
    writeFileSync(config, podmanConfig(dir, run));
    const own = within.length > 0 ? ownNetworkRecords() : [];
    const [command = '', ...before] = [...within, ...own, findProgram('podman', process.env) as string];
    const running = await startDaemon({
      name: 'podman',
      dir,
      command,
      args: [
        ...before,
        // dockerd refuses a folder in which it finds the layers of podman.
        ...['--root', join(dir, 'podman-data'), '--runroot', join(run, 'state'), '--cgroup-manager', 'cgroupfs'],
        ...(runtime ? ['--runtime', runtime] : []),
        ...args,
        ...['system', 'service', '--time=0', url],
      ],
      env: {
        ...process.env,
        PATH: searchPath(process.env).join(delimiter),
        CONTAINERS_CONF: config,
        ...(registry && { CONTAINERS_REGISTRIES_CONF: registries }),
      },
      deathSignal: 'SIGTERM',
      again,
    });
    daemon = running;
    const ready = async () => {
      running.assertRunning();
      return (await probeEngine(url)) !== undefined;
    };
    await waitFor(ready, { what: 'the private podman to answer', timeoutMs: 60_000, intervalMs: 50 });
  }

  async function stop(): Promise<void> {
    if (!daemon || daemon.exit()) return;
    // Its containers are not its children, so they would keep running.
    const containers = await callEngine<{ Id: string }[]>(url, 'GET', '/v1.41/containers/json').catch(() => []);
    await Promise.all(
      containers.map(({ Id }) => callEngine(url, 'POST', `/v1.41/containers/${Id}/stop?t=10`).catch(() => {})),
    );
    await daemon.stop(10_000);
  }

  log('Starting a private podman');
  await stopLeftovers(dir);
  await removePodmanLeftovers();
  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  const logFile = join(dir, 'logs', 'podman.log');
  const kill = async () => daemon?.kill();
  return { kind: 'podman', url, private: true, logFile, kill, start, stop, [Symbol.asyncDispose]: stop };
}

/**
 * What podman otherwise shares with all other podmans of the machine: networks, locks, events. Subnets are derived from
 * the folder's name, as those of a private docker.
 */
function podmanConfig(dir: string, run: string): string {
  const second = 100 + (Number.parseInt(shortHash(dir).slice(0, 2), 16) % 100);
  return `[engine]
tmp_dir = "${join(run, 'tmp')}"
lock_type = "file"
events_logger = "file"

[network]
network_backend = "netavark"
network_config_dir = "${join(dir, 'networks')}"
default_subnet = "10.${second}.0.0/24"
default_subnet_pools = [{ "base" = "10.${second}.0.0/16", "size" = 24 }]
`;
}

/** Daemons are in sbin, which is not in every PATH. */
function searchPath(env: NodeJS.ProcessEnv): string[] {
  return [...new Set([...(env.PATH ?? '').split(delimiter), '/usr/local/sbin', '/usr/sbin', '/sbin'])].filter(Boolean);
}

function findProgram(name: string, env: NodeJS.ProcessEnv): string | undefined {
  return searchPath(env)
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    });
}
