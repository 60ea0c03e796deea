import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** The repository's root. */
export const ROOT = resolve(import.meta.dirname, '..');

/** The cache that all checkouts share: binaries and images that were built once. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'skerry');
}

/** Eight characters of a hash of a text, for names that must be short and unique. */
export function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 8);
}

/** Parent of the run folders of all data folders. */
export const RUN_FOLDERS = '/run/skerry';

/**
 * Folder of the sockets that belong to a data folder: the path of a socket may have 107 bytes, and the path of a checkout may
 * be long. Needs root.
 */
export function runFolder(dir: string): string {
  return join(RUN_FOLDERS, shortHash(dir));
}
