import { spawn } from 'node:child_process';
import { accessSync, constants, existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import type { Log } from './progress.ts';

export interface PackagesOptions {
  packages: readonly string[];
  /** The missing packages, for people; empty when all are installed. */
  missing: () => string;
  /** The consequence: "No container engine runs here". */
  why: string;
  /** What to read on a system without apt. */
  elsewhere: string;
  log?: Log;
}

/** Installs packages on a Debian-like system, as root; elsewhere the error says what to install. No service is started. */
export async function installPackages(options: PackagesOptions): Promise<void> {
  const { packages, missing, why, elsewhere, log = () => {} } = options;
  if (missing() === '') return;
  const isDebian = existsSync('/etc/debian_version') && isThere('/usr/bin/apt-get');
  if (!isDebian || process.getuid?.() !== 0) {
    const how = isDebian ? `as root: apt-get install ${packages.join(' ')}` : elsewhere;
    throw new Error(`${why}: ${missing()} is missing. Install it (${how}).`);
  }
  await using _one = await lock(join(cacheFolder(), 'install.lock'), {
    onWait: () => log('Another process is installing a package; waiting for it'),
  });
  if (missing() === '') return;
  log(`${why}: ${missing()} is missing; installing ${packages.join(' ')} (no service is started)`);
  // An installation script asks this file before it starts a service; 101 means "do not".
  const policy = '/usr/sbin/policy-rc.d';
  const ours = !existsSync(policy);
  if (ours) writeFileSync(policy, '#!/bin/sh\nexit 101\n', { mode: 0o755 });
  try {
    await aptGet(['update']);
    await aptGet(['install', '-y', '--no-install-recommends', ...packages]);
  } finally {
    if (ours) rmSync(policy, { force: true });
  }
}

export function isThere(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

async function aptGet(args: string[]): Promise<void> {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' };
  // In a session of its own: a Ctrl-C must not interrupt an installation halfway.
  const options = { env, stdio: 'pipe', detached: true } as const;
  const child = spawn('apt-get', ['-q', '-o', 'DPkg::Lock::Timeout=300', ...args], options);
  child.stdin.end();
  let output = '';
  const keep = (piece: Buffer) => {
    output = (output + piece).slice(-2000);
  };
  child.stdout.on('data', keep);
  child.stderr.on('data', keep);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  if (code !== 0) throw new Error(`apt-get ${args.join(' ')} failed:\n${output.trim()}`);
}
