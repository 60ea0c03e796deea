import { join } from 'node:path';
import { appendText, fileSize, listDirectory, makeDirectory, removePath, renamePath } from './disk.ts';

const NAME = 'agent.log';

/** Log files of a directory, oldest first: `agent.log.2`, `agent.log.1`, `agent.log`. */
export function logFiles(directory: string): { name: string; path: string }[] {
  const age = (name: string) => Number(name.slice(NAME.length + 1) || 0);
  return listDirectory(directory)
    .filter((name) => name === NAME || /^agent\.log\.\d+$/.test(name))
    .sort((a, b) => age(b) - age(a))
    .map((name) => ({ name, path: join(directory, name) }));
}

export interface LogFileLimits {
  /** bytes of all files together */
  total: number;
  /** files that share them */
  files: number;
}

/**
 * Appends lines to `agent.log`; a full file becomes `agent.log.1`, and so on, and the oldest goes. All together never
 * take more than their limit. The limits are asked at each line, since settings change while the agent runs.
 *
 * A disk that refuses is reported once, by `onTrouble`, and tried again with the next line: logging never stops the agent.
 */
export function logFileWriter(
  directory: string,
  limits: () => LogFileLimits,
  onTrouble: (error: unknown) => void,
): (line: string) => void {
  const path = join(directory, NAME);
  let size: number | undefined;
  let troubled = false;
  return (line) => {
    try {
      size ??= begin(directory, path);
      const { total, files } = limits();
      const bytes = Buffer.byteLength(line);
      if (size > 0 && size + bytes > Math.floor(total / files)) {
        rotate(directory, files);
        size = 0;
      }
      appendText(path, line, 0o640);
      size += bytes;
      troubled = false;
    } catch (error) {
      // The cached size may be wrong after an error.
      size = undefined;
      if (!troubled) onTrouble(error);
      troubled = true;
    }
  };
}

function begin(directory: string, path: string): number {
  makeDirectory(directory, 0o750);
  return fileSize(path);
}

/** Every file becomes one older; those beyond the count go, also when the count was lowered. */
function rotate(directory: string, files: number): void {
  for (const { name, path } of logFiles(directory)) {
    const age = Number(name.slice(NAME.length + 1) || 0) + 1;
    if (age >= files) removePath(path);
    else renamePath(path, join(directory, `${NAME}.${age}`));
  }
}
