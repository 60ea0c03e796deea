import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as sleep } from 'node:timers/promises';

/** A lock that was taken; `await using` or `release()` releases it. */
export interface Lock extends AsyncDisposable {
  release(): void;
}

const SQLITE_BUSY = 5;

/**
 * Takes the lock at once, or returns undefined when another process has it.
 *
 * Node has no flock. A lock file with a process id needs a takeover when its owner dies, and every takeover has a race;
 * the kernel releases the lock that SQLite takes on its file when the process ends.
 */
export function tryLock(path: string): Lock | undefined {
  mkdirSync(dirname(path), { recursive: true });
  const database = new DatabaseSync(path);
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if ((error as { errcode?: number }).errcode === SQLITE_BUSY) return undefined;
    throw error;
  }
  const release = () => {
    if (database.isOpen) database.close();
  };
  return { release, [Symbol.asyncDispose]: async () => release() };
}

/** Waits for the lock; calls `onWait` once when it is not free. */
export async function lock(path: string, options: { onWait?: () => void; signal?: AbortSignal } = {}): Promise<Lock> {
  for (let waited = false; ; waited = true) {
    const held = tryLock(path);
    if (held) return held;
    if (!waited) options.onWait?.();
    await sleep(100, undefined, { signal: options.signal });
  }
}
