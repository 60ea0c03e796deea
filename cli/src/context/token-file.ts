import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { CommandError } from './errors.ts';
import type { Tokens } from './login.ts';

/** The tokens of a login at one controller, in a file that its user alone can read. */
export interface TokenFile {
  path: string;
  read(): Tokens | undefined;
  write(tokens: Tokens): void;
  remove(): void;
  /** Runs alone among all processes of the user; waits for the others. */
  alone<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T>;
}

/** A lock this old was left by a process that ended: no refresh takes so long. */
const STALE_MS = 30_000;
const WAIT_MS = 60_000;
const POLL_MS = 25;

/** `$KUBE_SKERRY_DIR`, else ~/.kube/skerry. */
export function tokenFile(origin: string, env: NodeJS.ProcessEnv): TokenFile {
  const folder = env.KUBE_SKERRY_DIR || join(env.HOME || homedir(), '.kube', 'skerry');
  const path = join(folder, `${createHash('sha256').update(origin).digest('hex').slice(0, 32)}.json`);
  const lock = `${path}.lock`;
  return {
    path,
    read() {
      try {
        const found: unknown = JSON.parse(readFileSync(path, 'utf8'));
        return isTokens(found) ? found : undefined;
      } catch {
        return undefined;
      }
    },
    write({ accessToken, refreshToken }) {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      const partial = `${path}.${randomUUID()}`;
      writeFileSync(partial, JSON.stringify({ controller: origin, accessToken, refreshToken }), {
        mode: 0o600,
        flag: 'wx',
      });
      renameSync(partial, path);
    },
    remove: () => rmSync(path, { force: true }),
    async alone(work, signal) {
      mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      const mine = `${process.pid} ${randomUUID()}`;
      const until = performance.now() + WAIT_MS;
      while (!takes(lock, mine)) {
        removeStale(lock);
        if (performance.now() > until) throw new CommandError(`${lock} is held by another process; remove the file`);
        await sleep(POLL_MS, undefined, { signal });
      }
      try {
        return await work();
      } finally {
        if (contentOf(lock) === mine) rmSync(lock, { force: true });
      }
    },
  };
}

const isTokens = (value: unknown): value is Tokens =>
  typeof value === 'object' &&
  value !== null &&
  'accessToken' in value &&
  typeof value.accessToken === 'string' &&
  (!('refreshToken' in value) || typeof value.refreshToken === 'string');

function takes(lock: string, mine: string): boolean {
  try {
    writeFileSync(lock, mine, { mode: 0o600, flag: 'wx' });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

/** Removes the lock of a process that has ended, or of a process that stopped long ago. */
function removeStale(lock: string): void {
  const held = contentOf(lock);
  if (held === undefined) return;
  const pid = Number(held.split(' ')[0]);
  const isOld = ageOf(lock) > STALE_MS;
  if (isOld || (pid > 0 && !isRunning(pid))) {
    // Another process may have taken its place meanwhile: only the lock that was read is removed.
    const aside = `${lock}.${randomUUID()}`;
    try {
      renameSync(lock, aside);
    } catch {
      return;
    }
    if (contentOf(aside) === held) rmSync(aside, { force: true });
    else renameSync(aside, lock);
  }
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}

function ageOf(path: string): number {
  try {
    return Date.now() - statSync(path).mtimeMs;
  } catch {
    return 0;
  }
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** When a token ends, Unix ms; undefined for a token that does not say so. */
export function endOfToken(token: string): number | undefined {
  try {
    const { exp } = JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()) as { exp?: unknown };
    return typeof exp === 'number' ? exp * 1000 : undefined;
  } catch {
    return undefined;
  }
}
