import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname } from 'node:path';

/** The small files of a control plane, which its programs read again when they change. */

export function readIfThere(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Writes files whose content is new: a reader sees each former file or the whole of the new one, and a full disk leaves all former ones. */
export function writeWhole(contents: Readonly<Record<string, string>>): void {
  const changed = Object.entries(contents).filter(([path, content]) => readIfThere(path) !== content);
  for (const [path, content] of changed) {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    writeFileSync(`${path}.new`, content, { mode: 0o600, flush: true });
  }
  for (const [path] of changed) renameSync(`${path}.new`, path);
}
