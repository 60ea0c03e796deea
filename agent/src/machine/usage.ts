import type { Container } from '../engine-port/container.ts';
import { readKernelFile } from './disk.ts';

/** What a container uses: percent of one CPU since the last look, and bytes of memory without reclaimable cache. */
export interface ContainerUsage {
  cpu: number;
  memory: number;
}

interface Known {
  pid: number;
  files: UsageFiles;
  cpuMicros: number;
  at: number;
}

interface UsageFiles {
  memory: string;
  memoryStat: string;
  inactiveKey: string;
  cpu: string;
  readCpu: (text: string) => number;
}

const ROOT = '/sys/fs/cgroup';

/** Reads usage from the kernel's cgroup files, without asking the engine. What cannot be read is absent. */
export class UsageReader {
  #known = new Map<string, Known>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  async read(containers: readonly Container[]): Promise<Map<string, ContainerUsage>> {
    const usage = new Map<string, ContainerUsage>();
    const running = containers.filter(({ state, pid }) => state === 'running' && pid > 0);
    const ids = new Set(running.map(({ id }) => id));
    for (const id of this.#known.keys()) if (!ids.has(id)) this.#known.delete(id);
    for (const container of running) {
      const one = await this.#readOne(container);
      if (one) usage.set(container.id, one);
    }
    return usage;
  }

  async #readOne({ id, pid }: Container): Promise<ContainerUsage | undefined> {
    const last = this.#known.get(id);
    const files = last?.pid === pid ? last.files : await findFiles(pid);
    if (!files) return undefined;
    const [memory, stat, cpu] = await Promise.all([
      readKernelFile(files.memory),
      readKernelFile(files.memoryStat),
      readKernelFile(files.cpu),
    ]);
    if (memory === undefined || cpu === undefined) {
      this.#known.delete(id);
      return undefined;
    }
    const cpuMicros = files.readCpu(cpu);
    const at = this.#now();
    const elapsed = last?.pid === pid ? at - last.at : 0;
    const used = last && elapsed > 0 ? cpuMicros - last.cpuMicros : 0;
    this.#known.set(id, { pid, files, cpuMicros, at });
    const inactive = stat ? statValue(stat, files.inactiveKey) : 0;
    return {
      cpu: elapsed > 0 ? Math.max(0, Math.round((used / 1000 / elapsed) * 10000) / 100) : 0,
      memory: Math.max(0, Number(memory.trim()) - inactive),
    };
  }
}

/** Where the figures of a process's cgroup stand, for cgroup v2, v1 and both together. */
async function findFiles(pid: number): Promise<UsageFiles | undefined> {
  const text = await readKernelFile(`/proc/${pid}/cgroup`);
  if (text === undefined) return undefined;
  const paths = cgroupPaths(text);
  const memory = paths.get('memory');
  const cpuacct = paths.get('cpuacct');
  if (memory !== undefined && cpuacct !== undefined)
    return {
      memory: `${ROOT}/memory${memory}/memory.usage_in_bytes`,
      memoryStat: `${ROOT}/memory${memory}/memory.stat`,
      inactiveKey: 'total_inactive_file',
      cpu: `${ROOT}/cpuacct${cpuacct}/cpuacct.usage`,
      readCpu: (nanoseconds) => Number(nanoseconds.trim()) / 1000,
    };
  const unified = paths.get('');
  if (unified === undefined) return undefined;
  return {
    memory: `${ROOT}${unified}/memory.current`,
    memoryStat: `${ROOT}${unified}/memory.stat`,
    inactiveKey: 'inactive_file',
    cpu: `${ROOT}${unified}/cpu.stat`,
    readCpu: (stat) => statValue(stat, 'usage_usec'),
  };
}

/** Controller name to path, from /proc/<pid>/cgroup; the empty name is cgroup v2. */
export function cgroupPaths(text: string): Map<string, string> {
  const paths = new Map<string, string>();
  for (const line of text.split('\n')) {
    const [, names, path] = /^\d+:([^:]*):(\/.*)$/.exec(line) ?? [];
    if (names === undefined || path === undefined || path.includes('/../')) continue;
    for (const name of names.split(',')) paths.set(name, path === '/' ? '' : path);
  }
  return paths;
}

function statValue(text: string, key: string): number {
  const [, value] = new RegExp(`^${key} (\\d+)`, 'm').exec(text) ?? [];
  return Number(value ?? 0);
}
