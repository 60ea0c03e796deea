import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../../../src/lib/log.ts';
import { CDI_DIRECTORIES, cdiDevicesIn, isCdiFile } from '../domain/cdi.ts';
import { errorText } from './log.ts';

/** Files of one directory, bytes of one file, and devices in all that are read. */
const MAX_FILES = 64;
const MAX_BYTES = 1024 * 1024;
const MAX_DEVICES = 4096;

/** The CDI devices of this machine, sorted. */
export type CdiDevices = (directories?: readonly string[]) => readonly string[];

/**
 * Reads the CDI specifications of this machine. A file is read again when it has changed; one that cannot be read is left
 * out, which the log says once per change.
 */
export function discoverCdi(log: Log): CdiDevices {
  let known = new Map<string, { version: string; devices: readonly string[] }>();

  function devicesOf(path: string): readonly string[] {
    const before = known.get(path);
    let version = '';
    try {
      const { mtimeMs, size, ino } = statSync(path);
      version = `${mtimeMs}/${size}/${ino}`;
      if (before?.version === version) return before.devices;
      const devices = cdiDevicesIn(readWhole(path));
      known.set(path, { version, devices });
      return devices;
    } catch (error) {
      if (before?.version !== version) log.warn({ path, error: errorText(error) }, 'A CDI specification is left out');
      known.set(path, { version, devices: [] });
      return [];
    }
  }

  return (directories = CDI_DIRECTORIES) => {
    const paths = directories.flatMap((directory) => filesOf(directory, log));
    // What is no longer there is read again when it returns.
    known = new Map([...known].filter(([path]) => paths.includes(path)));
    const devices = new Set<string>();
    for (const path of paths) for (const device of devicesOf(path)) if (devices.size < MAX_DEVICES) devices.add(device);
    return [...devices].sort();
  };
}

function filesOf(directory: string, log: Log): string[] {
  let names: string[];
  try {
    names = readdirSync(directory).filter(isCdiFile).sort();
  } catch {
    // Most machines have no such directory.
    return [];
  }
  if (names.length > MAX_FILES)
    log.debug({ directory, files: names.length, read: MAX_FILES }, 'Only some CDI specifications are read');
  return names.slice(0, MAX_FILES).map((name) => join(directory, name));
}

/** The text of a file. Throws for what is no plain file, or too long; never waits for a writer. */
function readWhole(path: string): string {
  const descriptor = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    if (!fstatSync(descriptor).isFile()) throw new Error('it is no file');
    const buffer = Buffer.alloc(Math.min(fstatSync(descriptor).size, MAX_BYTES) + 1);
    let length = 0;
    for (;;) {
      const read = readSync(descriptor, buffer, length, buffer.length - length, length);
      length += read;
      if (read === 0 || length === buffer.length) break;
    }
    if (length > MAX_BYTES) throw new Error(`it has more than ${MAX_BYTES} bytes`);
    return buffer.toString('utf8', 0, length);
  } finally {
    closeSync(descriptor);
  }
}
