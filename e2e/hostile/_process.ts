import { readFileSync } from 'node:fs';

/** Resident memory of a process, in MiB: now and at its peak. */
export function memoryOf(pid: number): { now: number; peak: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const mib = (name: string) =>
    Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN) / 1024;
  return { now: mib('VmRSS'), peak: mib('VmHWM') };
}

/** The lines of a log of JSON objects that are not JSON objects. */
export function brokenLines(logFile: string): string[] {
  return linesOf(logFile).filter((line) => entryOf(line) === undefined);
}

/** Entries of a log that report a fault of the program itself. */
export function faults(logFile: string): Record<string, unknown>[] {
  return linesOf(logFile)
    .map(entryOf)
    .filter((entry) => entry !== undefined)
    .filter(({ level }) => /^(error|fatal)$/i.test(String(level)));
}

const linesOf = (file: string) => readFileSync(file, 'utf8').split('\n').filter(Boolean);

function entryOf(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}
