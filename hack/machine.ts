import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { promisify } from 'node:util';
import { type Cgroups, cgroupsOf } from './cluster/cgroups.ts';
import { processStartTime } from './process.ts';
import { waitFor } from './wait.ts';

const run = promisify(execFile);
/** Where engines keep layers, which cannot lie on an overlay. */
const ON_DISK = ['var/lib/docker', 'var/lib/containers', 'var/lib/skerry-containerd'] as const;
const PREFIX = 'skerry-machine-';

/**
 * containers.conf. In a machine inside of a container crun raises a limit that it may not raise, and there may be no controller
 * of pids; networks are kept where a root that is read-only lets them be written (docs/install.md#machines).
 */
const PODMAN_SETTINGS = [
  '[containers]',
  'pids_limit = 0',
  '[engine]',
  'runtime = "runc"',
  '[network]',
  'network_config_dir = "/var/lib/containers/networks"',
] as const;

/**
 * Before the init system: namespaces have no file systems of their own yet. `$1`: the root; `$2`: `ro` for a root that is read only;
 * `$3`: control groups of the first version that it has.
 */
const BOOT = `set -e
mount --make-rprivate /
cd "$1"
mkdir -p .host
pivot_root . .host
cd /
mount -t proc proc /proc
mount -t sysfs sysfs /sys
if [ -n "$3" ]; then
  # The controllers of this machine belong to hierarchies of the first version, which the second one then lacks.
  mount -t tmpfs -o mode=755 tmpfs /sys/fs/cgroup
  for each in $3; do
    mkdir /sys/fs/cgroup/$each
    mount -t cgroup -o $each cgroup /sys/fs/cgroup/$each
  done
  mkdir /sys/fs/cgroup/systemd
  mount -t cgroup -o none,name=systemd cgroup /sys/fs/cgroup/systemd
else
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
fi
mount -t tmpfs -o mode=755 tmpfs /run
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=755 tmpfs /dev
for each in null zero full random urandom tty; do touch /dev/$each; mount --bind /.host/dev/$each /dev/$each; done
mkdir -p /dev/pts /dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=0620,gid=5 devpts /dev/pts
ln -s pts/ptmx /dev/ptmx
ln -s /proc/self/fd /dev/fd
umount -l /.host
if [ "$2" = ro ]; then
  mount --rbind /var /var
  mount -o remount,bind,ro /
fi
export container=other
exec /lib/systemd/systemd --unit=multi-user.target >/dev/null 2>&1 </dev/null
`;

export interface Said {
  code: number;
  out: string;
}

export interface MachineOptions {
  /** the root file system that it begins with (hack/debian.ts); this machine's own when absent */
  base?: string;
  /** prefix of a command that runs in its network, such as `ip netns exec <name>`; it has none when absent */
  within?: readonly string[];
  /** whether it can limit processors and memory, also where this machine has control groups of the first version */
  controllers?: boolean;
}

/** In the groups of a machine, which it takes for the root of all. */
const ENTER = 'for each in /sys/fs/cgroup/*/"$0"/cgroup.procs; do echo $$ > "$each"; done; exec "$@"';

/**
 * A Debian of its own with systemd as init, in namespaces of its own: a root file system under a layer that takes all writes and
 * outlives a loss of power, though not the machine itself. Needs root.
 */
export class Machine implements AsyncDisposable {
  readonly root: string;
  readonly #dir: string;
  readonly #within: readonly string[] | undefined;
  readonly #cgroups: Cgroups | undefined;
  #process: ChildProcess | undefined;

  private constructor(dir: string, { within, controllers }: MachineOptions) {
    this.#dir = dir;
    this.root = join(dir, 'root');
    this.#within = within;
    this.#cgroups = controllers && oldControllers().length > 0 ? cgroupsOf(basename(dir)) : undefined;
  }

  static async create({ base = '/', ...options }: MachineOptions = {}): Promise<Machine> {
    await removeLeftovers();
    // The name says whose it is: a later run removes what a killed run left.
    const machine = new Machine(mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`)), options);
    try {
      await machine.#lay(base);
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      throw error;
    }
    return machine;
  }

  async #lay(base: string): Promise<void> {
    const at = (name: string) => join(this.#dir, name);
    for (const name of ['root', 'layer', 'disk']) mkdirSync(at(name));
    // In memory: a layer may not lie in what it covers.
    await run('mount', ['-t', 'tmpfs', 'skerry-machine', at('layer')]);
    for (const name of ['upper', 'work']) mkdirSync(join(at('layer'), name));
    const options = `lowerdir=${base},upperdir=${at('layer/upper')},workdir=${at('layer/work')}`;
    await run('mount', ['-t', 'overlay', 'skerry-machine', '-o', options, this.root]);
    // Only tested units are started, and the packages may start it.
    rmSync(join(this.root, 'etc/systemd/system/multi-user.target.wants'), { recursive: true, force: true });
    rmSync(join(this.root, 'usr/sbin/policy-rc.d'), { force: true });
    for (const path of ON_DISK) {
      for (const folder of [join(this.root, path), join(at('disk'), path)]) mkdirSync(folder, { recursive: true });
      await run('mount', ['--bind', join(at('disk'), path), join(this.root, path)]);
    }
    writeFileSync(at('boot'), BOOT);
  }

  /** Installs packages of an engine before the first start, or while the machine runs. */
  async installEngine(kind: 'docker' | 'podman' | 'embedded'): Promise<Said> {
    const settings = PODMAN_SETTINGS.join('\\n');
    const runtime = `printf '${settings}\\n' > /etc/containers/containers.conf`;
    const command = `DEBIAN_FRONTEND=noninteractive dpkg -i /packages/${kind}/*.deb${
      kind === 'podman' ? ` /packages/docker/runc_*.deb && ${runtime}` : ''
    }`;
    if (this.#process) return this.sh(command);
    return said(run('chroot', [this.root, 'sh', '-c', command], { cwd: '/', maxBuffer: 64 * 1024 ** 2 }));
  }

  /** Starts the init system and waits until it is up. With `readOnly` only /var, /run and /tmp can be written. */
  async boot({ readOnly = false } = {}): Promise<void> {
    const namespaces = ['--mount', '--pid', '--uts', '--ipc', '--cgroup', '--fork', '--kill-child'];
    const network = this.#within ? [] : ['--net'];
    const controllers = this.#cgroups ? oldControllers() : [];
    const boot = ['sh', join(this.#dir, 'boot'), this.root, readOnly ? 'ro' : 'rw', controllers.join(' ')];
    const enter = this.#cgroups ? ['sh', '-c', ENTER, basename(this.#dir)] : [];
    // The machine does not outlive this process.
    const args = [
      '--pdeathsig',
      'KILL',
      '--',
      ...enter,
      ...(this.#within ?? []),
      'unshare',
      ...network,
      ...namespaces,
      ...boot,
    ];
    this.#process = spawn('setpriv', args, { stdio: ['ignore', 'ignore', 'inherit'], cwd: '/' });
    const state = async () => (await this.say('systemctl', 'is-system-running')).out;
    await waitFor(async () => /running|degraded/.test(await state()), {
      what: 'systemd to be up',
      timeoutMs: 240_000,
    });
  }

  /** Ends all processes, as a loss of power does; the disk stays. */
  async powerOff(): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    if (!child?.pid || child.exitCode !== null || child.signalCode !== null) return;
    const gone = new Promise((resolve) => child.once('exit', resolve));
    child.kill('SIGKILL');
    await gone;
  }

  /** The output of a program on the machine, also when it fails. */
  async say(...command: string[]): Promise<Said> {
    const parent = this.#process?.pid;
    const init = parent && readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim();
    if (!init) return { code: -1, out: '' };
    const args = ['--target', init, '--all', '--root', '--wdns=/root', 'env', '-i', 'HOME=/root', PATH, ...command];
    return said(run('nsenter', args, { cwd: '/', maxBuffer: 64 * 1024 ** 2 }));
  }

  /** What a line of the shell says. */
  sh(line: string): Promise<Said> {
    return this.say('sh', '-c', line);
  }

  write(path: string, content: string | Uint8Array): void {
    const file = join(this.root, path);
    mkdirSync(join(file, '..'), { recursive: true });
    writeFileSync(file, content);
  }

  /** The properties of the agent's unit. */
  async unit(): Promise<Record<'ActiveState' | 'MainPID' | 'NRestarts' | 'StatusText', string>> {
    const { out } = await this.say(
      'systemctl',
      'show',
      'skerry-agent',
      '-p',
      'ActiveState,MainPID,NRestarts,StatusText',
    );
    return Object.fromEntries(out.split('\n').map((line) => line.split('=', 2)));
  }

  untilActive(): Promise<unknown> {
    return waitFor(async () => (await this.unit()).ActiveState === 'active', {
      what: 'the unit to be active',
      timeoutMs: 120_000,
    });
  }

  /** All files of the root, without the folders for engines, which this class lays, and what every package leaves: logs, lists of packages, caches. */
  async files(): Promise<string[]> {
    const packages = ['var/log', 'var/lib/dpkg', 'var/cache', 'var/lib/apt', 'var/lib/systemd', 'var/tmp'];
    const left = [...packages, ...ON_DISK, '.host'];
    const without = left.flatMap((path) => ['-path', `./${path}`, '-prune', '-o']);
    const { stdout } = await run('find', ['.', '-xdev', ...without, '-print'], { cwd: this.root, maxBuffer: 2 ** 28 });
    return stdout.trim().split('\n').sort();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.powerOff();
    await this.#cgroups?.remove();
    await remove(this.#dir);
  }
}

/** The hierarchies of the first version that this machine has for processors, memory and the like. */
const oldControllers = () =>
  existsSync('/sys/fs/cgroup/cgroup.controllers')
    ? []
    : readdirSync('/sys/fs/cgroup').filter((name) => !['systemd', 'unified'].includes(name));

async function remove(dir: string): Promise<void> {
  const root = join(dir, 'root');
  for (const path of [...ON_DISK.map((each) => join(root, each)), root, join(dir, 'layer')])
    await run('umount', ['--lazy', path]).catch(() => {});
  // Never through a mount that is still there.
  if (!existsSync(join(root, 'usr'))) await run('rm', ['-rf', '--one-file-system', dir]);
}

/** Removes the file systems of runs that were killed: those in memory stay there until then. */
async function removeLeftovers(): Promise<void> {
  for (const name of readdirSync(tmpdir())) {
    const [, pid] = new RegExp(`^${PREFIX}(\\d+)-`).exec(name) ?? [];
    if (pid && processStartTime(Number(pid)) === undefined) await remove(join(tmpdir(), name));
  }
}

const PATH = 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

const said = (running: Promise<{ stdout: string; stderr: string }>): Promise<Said> =>
  running.then(
    ({ stdout, stderr }) => ({ code: 0, out: `${stdout}${stderr}`.trim() }),
    ({ code, stdout, stderr }) => ({ code: Number(code ?? 1), out: `${stdout ?? ''}${stderr ?? ''}`.trim() }),
  );
