import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import type { Log } from '../../../src/lib/log.ts';
import { AgentError } from '../domain/agent-error.ts';
import { closeDirectory } from './data-directory.ts';
import { fileIdentity, makePrivateFile, readText } from './disk.ts';
import { errorText } from './log.ts';

/** SQLITE_BUSY: another process has it. */
const BUSY = 5;

/**
 * Keeps other agents out of a data directory for as long as this process lives, however it ends: Node has no file locks
 * of its own, and SQLite's are the kernel's. Throws with the process of another agent that has the lock. On a disk that
 * cannot be written there is no lock, and the agent supervises without it.
 */
export function holdDirectory(directory: string, log: Log): Disposable {
  const file = join(directory, 'agent.lock');
  let database: DatabaseSync | undefined;
  try {
    closeDirectory(directory);
    // Whoever may open the file may lock it.
    makePrivateFile(file);
    database = new DatabaseSync(file);
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database?.close();
    if ((error as { errcode?: number }).errcode === BUSY)
      throw new AgentError('CONFLICT', `another agent${holderOf(file)} works with ${directory}; stop it first`);
    log.warn({ directory, error: errorText(error) }, 'Cannot keep other agents out of the data directory');
    return { [Symbol.dispose]: () => {} };
  }
  const locked = database;
  return { [Symbol.dispose]: () => locked.close() };
}

/** The process that has a file locked, as the kernel names it; empty where it does not. */
function holderOf(file: string): string {
  const inode = fileIdentity(file)?.split(':')[1];
  for (const line of (readText('/proc/locks') ?? '').split('\n')) {
    const [, pid, found] = /^\d+: \w+\s+\w+\s+\w+\s+(\d+) [0-9a-f]+:[0-9a-f]+:(\d+) /.exec(line) ?? [];
    if (found === inode && Number(pid) > 0) return ` (process ${pid})`;
  }
  return '';
}
