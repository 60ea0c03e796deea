import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/**
 * Tests start some thousand processes of controllers, agents and their command lines. With this folder only the first one
 * strips the types of a source and compiles it. It is of this run, since the cache keeps what it has of deleted files.
 */
export default async function setup(): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'skerry-compiled-'));
  process.env.NODE_COMPILE_CACHE = dir;
  // Processes that are ending may still write to it.
  return () => rm(dir, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 }).catch(() => {});
}
