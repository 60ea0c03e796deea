import { readdirSync, readFileSync } from 'node:fs';

/** Processes by their names in a table. */
export type Pids = Readonly<Record<string, number>>;

/** The usage of processes between two samples. */
export interface Usage {
  seconds: number;
  /** by process, and the total */
  cpuMs: Record<string, number> & { total: number };
  writtenBytes: Record<string, number>;
}

/** Memory of a process, bytes. */
export interface Memory {
  rss: number;
  privateDirty: number;
}

/** The unit of the kernel's times, on every architecture (USER_HZ). */
const TICKS_PER_SECOND = 100;

/** User and system time of all threads, those that have ended included, from the text of /proc/<pid>/stat; ms. */
export function cpuOfStat(text: string): number {
  // The second field is the command in parentheses, which may contain any character.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return (ticks * 1000) / TICKS_PER_SECOND;
}

/** From the text of /proc/<pid>/smaps_rollup, which is exact, while statm is an estimate. */
export function memoryOfRollup(text: string): Memory {
  const bytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)?.[1]) * 1024;
  return { rss: bytes('Rss'), privateDirty: bytes('Private_Dirty') };
}

/** Bytes that a process caused to be written to a disk, from the text of /proc/<pid>/io. */
export function writtenOfIo(text: string): number {
  return Number(/^write_bytes: (\d+)$/m.exec(text)?.[1]);
}

export const cpuMsOf = (pid: number) => cpuOfStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
export const memoryOf = (pid: number) => memoryOfRollup(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'));
/** The processes whose command lines name one of these folders: helpers by the name of their program, and the others. */
export function processesNaming(folders: readonly string[], helper: RegExp): { daemons: number[]; helpers: number[] } {
  const found = { daemons: [] as number[], helpers: [] as number[] };
  for (const name of readdirSync('/proc').filter((each) => /^\d+$/.test(each))) {
    const words = commandOf(name);
    if (!words.some((word) => folders.some((folder) => word.includes(folder)))) continue;
    (helper.test(words[0] ?? '') ? found.helpers : found.daemons).push(Number(name));
  }
  return found;
}

/** The words of a command line; none of a process that has ended. */
function commandOf(pid: string): string[] {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return [];
  }
}

const writtenBytesOf = (pid: number) => writtenOfIo(readFileSync(`/proc/${pid}/io`, 'utf8'));

/** Begins to measure processes; the result returns their usage since then. */
export function watchUsage(pids: Pids): () => Usage {
  const look = (of: (pid: number) => number) =>
    Object.fromEntries(Object.entries(pids).map(([name, pid]) => [name, of(pid)]));
  const began = performance.now();
  const cpu = look(cpuMsOf);
  const written = look(writtenBytesOf);
  return () => {
    const seconds = (performance.now() - began) / 1000;
    const cpuMs = difference(look(cpuMsOf), cpu);
    const total = Object.values(cpuMs).reduce((sum, ms) => sum + ms, 0);
    return { seconds, cpuMs: { ...cpuMs, total }, writtenBytes: difference(look(writtenBytesOf), written) };
  };
}

function difference(now: Record<string, number>, before: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(now).map(([name, value]) => [name, value - (before[name] ?? 0)]));
}
