import { homedir } from 'node:os';
import { join, resolve } from 'node:path';

/** The repository's root. */
export const ROOT = resolve(import.meta.dirname, '..');

/** What lasts between checkouts: binaries and images that were built once. */
export function cacheFolder(env: NodeJS.ProcessEnv = process.env): string {
  return join(env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'skerry');
}
