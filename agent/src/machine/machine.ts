import { arch, cpus, freemem, networkInterfaces, release, totalmem } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { ARCHITECTURES, type Architecture } from '../../../src/api/names.ts';
import type { StatusReport } from '../../../src/wire/agent.ts';
import type { ProcessLimits } from '../domain/container-spec.ts';
import { directorySize, fileSystemSize, readKernelFile, readText } from './disk.ts';
import { hardwareMembers } from './hardware.ts';

/** What the agent knows of the machine it runs on; replaced in tests and simulations. */
export interface Machine {
  /** names the machine's present boot */
  bootId: string;
  architecture: Architecture;
  limits: ProcessLimits;
  /** facts and figures for the report */
  measure(): Promise<StatusReport>;
  /** the disk of the agent's own directory, and what that holds, in bytes; undefined where that cannot be known */
  disk(): Promise<{ total: number; available: number; used?: number } | undefined>;
  /** the disk that holds a path, in bytes; undefined where that cannot be known */
  diskAt(path: string): { total: number; available: number } | undefined;
  addresses(networkInterface: string): { name: string; address: string } | undefined;
  /** what tells its hardware from any other; empty where nothing does */
  hardware(): Readonly<Record<string, string>>;
}

/** The machine that this process runs on. */
export function localMachine(diskDirectory: string): Machine {
  const facts = osFacts();
  let cpuBefore: CpuTimes | undefined;
  let ownBefore = ownCpu();
  const ownDisk = sparing(() => directorySize(diskDirectory));
  return {
    bootId: (readText('/proc/sys/kernel/random/boot_id') ?? 'unknown').trim(),
    architecture: architectureOf(arch()),
    limits: ownLimits(),
    addresses,
    hardware: () => hardwareMembers(),
    diskAt: fileSystemSize,
    async disk() {
      const size = fileSystemSize(diskDirectory);
      return size && { total: size.total, available: size.available, used: await ownDisk() };
    },
    async measure() {
      const disk = fileSystemSize(diskDirectory);
      const cpuNow = parseCpuTimes((await readKernelFile('/proc/stat')) ?? '');
      const busy = cpuNow && cpuBefore ? busyPercent(cpuBefore, cpuNow) : undefined;
      cpuBefore = cpuNow;
      const ownNow = ownCpu();
      const share = (ownNow.micros - ownBefore.micros) / 10 / Math.max(1, ownNow.at - ownBefore.at);
      ownBefore = ownNow;
      return {
        ...facts,
        memoryUsage: process.memoryUsage.rss(),
        cpuUsage: Math.round(share * 100) / 100,
        systemCpus: cpus().length,
        systemTotalMemory: totalmem(),
        systemAvailableMemory: (await availableMemory()) ?? freemem(),
        systemTotalCpu: busy,
        systemTotalDisk: disk?.total,
        systemAvailableDisk: disk?.available,
        diskUsage: inGibibytes(await ownDisk()),
      };
    },
  };
}

/** What this process has used of the CPU, and when. */
function ownCpu(): { at: number; micros: number } {
  const { user, system } = process.cpuUsage();
  return { at: performance.now(), micros: user + system };
}

const GIB = 1024 ** 3;
const FRESH = 60_000;
const FIRST_WAIT = 1000;

/**
 * A measurement that may take long, repeated so rarely that it takes at most a hundredth of the time. In between, the last
 * value is returned; callers wait at most a second for the first one.
 */
export function sparing(
  measure: () => Promise<number>,
  now: () => number = () => performance.now(),
): () => Promise<number | undefined> {
  let value: number | undefined;
  let running: Promise<void> | undefined;
  let notBefore = 0;
  async function run(): Promise<void> {
    const began = now();
    value = await measure().catch(() => value);
    notBefore = now() + Math.max(FRESH, 100 * (now() - began));
    running = undefined;
  }
  return async () => {
    if (!running && now() >= notBefore) running = run();
    if (value === undefined) await Promise.race([running, sleep(FIRST_WAIT, undefined, { ref: false })]);
    return value;
  };
}

const inGibibytes = (bytes: number | undefined) =>
  bytes === undefined ? undefined : Math.round((bytes / GIB) * 1e6) / 1e6;

function osFacts(): StatusReport {
  const pretty = /^PRETTY_NAME="?([^"\n]*)/m.exec(readText('/etc/os-release') ?? '')?.[1];
  return { systemOs: process.platform, systemOsVersion: pretty ?? '', systemKernelVersion: release() };
}

/** Our name of an architecture, from Node's. */
export function architectureOf(name: string): Architecture {
  const names: Record<string, Architecture> = { x64: 'amd64', arm64: 'arm64', riscv64: 'riscv64', arm: 'arm' };
  return names[name] ?? 'auto';
}

/** The id that the v3 API gives an architecture. */
export function architectureId(architecture: Architecture): number {
  return ARCHITECTURES.indexOf(architecture);
}

async function availableMemory(): Promise<number | undefined> {
  const text = await readKernelFile('/proc/meminfo');
  const kilobytes = /^MemAvailable:\s+(\d+) kB/m.exec(text ?? '')?.[1];
  return kilobytes === undefined ? undefined : Number(kilobytes) * 1024;
}

interface CpuTimes {
  busy: number;
  total: number;
}

function parseCpuTimes(text: string): CpuTimes | undefined {
  const line = /^cpu\s+(.*)$/m.exec(text)?.[1];
  if (line === undefined) return undefined;
  const [user = 0, nice = 0, system = 0, idle = 0, iowait = 0, irq = 0, softirq = 0, steal = 0] = line
    .split(/\s+/)
    .map(Number);
  const busy = user + nice + system + irq + softirq + steal;
  return { busy, total: busy + idle + iowait };
}

function busyPercent(before: CpuTimes, now: CpuTimes): number | undefined {
  const total = now.total - before.total;
  return total > 0 ? Math.round(((now.busy - before.busy) / total) * 1000) / 10 : undefined;
}

/** What the kernel shows of the network: its interfaces, and the texts of /proc/net/route and /proc/net/ipv6_route. */
export interface NetworkView {
  interfaces: ReturnType<typeof networkInterfaces>;
  routes: string;
  routes6: string;
}

/**
 * Our address: that of the named interface, or of the one that the default route goes through. An address of IPv4 comes first, and one
 * that is valid on its link only never counts.
 */
export function addressIn(network: NetworkView, wanted: string): { name: string; address: string } | undefined {
  const { interfaces } = network;
  const of = (family: 'IPv4' | 'IPv6', names: readonly string[]) =>
    names
      .flatMap((name) => (interfaces[name] ?? []).map((each) => ({ name, ...each })))
      .find((each) => each.family === family && !each.internal && !/^fe[89ab]/i.test(each.address));
  const all = wanted === 'dynamic' ? Object.keys(interfaces) : [wanted];
  const [route, route6] = wanted === 'dynamic' ? [defaultRoute(network.routes), defaultRoute6(network.routes6)] : [];
  const found =
    (route !== undefined && of('IPv4', [route])) ||
    (route6 !== undefined && of('IPv6', [route6])) ||
    of('IPv4', all) ||
    of('IPv6', all);
  return found && { name: found.name, address: found.address };
}

const defaultRoute = (text: string) =>
  text
    .split('\n')
    .map((line) => line.split('\t'))
    .find(([, destination]) => destination === '00000000')?.[0];

/** The kernel lists a route that refuses everything as one of `lo`. */
const defaultRoute6 = (text: string) =>
  text
    .split('\n')
    .map((line) => line.trim().split(/\s+/))
    .find(
      ([destination, length, ...rest]) => /^0{32}$/.test(destination ?? '') && length === '00' && rest.at(-1) !== 'lo',
    )
    ?.at(-1);

function addresses(networkInterface: string): { name: string; address: string } | undefined {
  const [routes, routes6] = [readText('/proc/net/route') ?? '', readText('/proc/net/ipv6_route') ?? ''];
  return addressIn({ interfaces: networkInterfaces(), routes, routes6 }, networkInterface);
}

/** The addresses of this machine's interfaces, as they are now. */
export function ownAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address));
}

/** Names of limits as the kernel names them, and as containers ask for them. */
const LIMIT_NAMES: Readonly<Record<string, string>> = {
  'Max open files': 'nofile',
  'Max processes': 'nproc',
  'Max core file size': 'core',
  'Max locked memory': 'memlock',
  'Max stack size': 'stack',
  'Max data size': 'data',
  'Max file size': 'fsize',
  'Max file locks': 'locks',
  'Max pending signals': 'sigpending',
  'Max msgqueue size': 'msgqueue',
  'Max nice priority': 'nice',
  'Max realtime priority': 'rtprio',
  'Max realtime timeout': 'rttime',
  'Max resident set': 'rss',
  'Max cpu time': 'cpu',
};

const CAP_SYS_RESOURCE = 24n;

/** What this process may grant; see `processLimits`. */
export function ownLimits(): ProcessLimits {
  const text = (path: string) => readText(`/proc/${path}`) ?? '';
  return processLimits(text('self/limits'), text('self/status'), text('sys/kernel/pid_max'));
}

/**
 * Our own hard limits, and whether the kernel lets us exceed them; -1 is unlimited. No limit of processes is above what
 * the kernel has numbers for: more would mean nothing, and podman lowers its own limit to that. Pure.
 */
export function processLimits(limits: string, status: string, pidMax = ''): ProcessLimits {
  const hard: Record<string, number> = {};
  for (const line of limits.split('\n')) {
    const [, name, , value] = /^(\S+(?: \S+)*) {2,}(\S+) +(\S+)/.exec(line) ?? [];
    const known = name && LIMIT_NAMES[name];
    if (known && value) hard[known] = value === 'unlimited' ? -1 : Number(value);
  }
  const { nproc } = hard;
  if (nproc !== undefined && Number(pidMax) > 0)
    hard.nproc = nproc < 0 ? Number(pidMax) : Math.min(nproc, Number(pidMax));
  const effective = /^CapEff:\s+([0-9a-f]+)/m.exec(status)?.[1];
  const mayRaise = effective !== undefined && ((BigInt(`0x${effective}`) >> CAP_SYS_RESOURCE) & 1n) === 1n;
  return { mayRaise, hard };
}
