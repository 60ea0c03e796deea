import { execFile } from 'node:child_process';
import { accessSync, constants, existsSync, mkdirSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installPackages } from './apt.ts';
import { lock } from './lock.ts';
import { cacheFolder, shortHash } from './paths.ts';
import type { Log } from './progress.ts';

/**
 * A root file system of Debian 12 with systemd as init and little else, made once and kept in the cache folder. The folder
 * `packages` in it has the packages of each engine with all that they need, to be installed without a network.
 */
const run = promisify(execFile);
const SUITE = 'bookworm';
const MIRROR = 'http://deb.debian.org/debian';
const BASE = ['systemd-sysv', 'dbus', 'curl', 'ca-certificates', 'iproute2', 'procps'] as const;
const ENGINES = {
  docker: ['docker.io', 'iptables'],
  podman: ['podman', 'netavark', 'aardvark-dns', 'iptables', 'crun'],
  embedded: ['containerd', 'runc', 'containernetworking-plugins'],
} as const;
const PATIENCE_MS = 900_000;

export async function debianRoot(log: Log = () => {}): Promise<string> {
  const folder = join(cacheFolder(), `debian-${shortHash(JSON.stringify([SUITE, BASE, ENGINES]))}`);
  if (existsSync(folder)) return folder;
  await using _one = await lock(`${folder}.lock`, { onWait: () => log('Another process makes a root file system') });
  if (existsSync(folder)) return folder;
  await installPackages({
    packages: ['mmdebstrap'],
    missing: () => (isThere('/usr/bin/mmdebstrap') ? '' : 'mmdebstrap'),
    why: 'A root file system of Debian cannot be made',
    elsewhere: 'https://packages.debian.org/mmdebstrap',
    log,
  });
  log('Making a root file system of Debian, once');
  const draft = `${folder}.draft`;
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft, { recursive: true });
  const fetched = Object.entries(ENGINES).flatMap(([kind, packages]) => [
    `mkdir -p "$1/packages/${kind}"`,
    `chroot "$1" apt-get install -qq -y --no-install-recommends --download-only -o Dir::Cache::archives=/packages/${kind} ${packages.join(' ')}`,
    `rm -rf "$1/packages/${kind}/partial" "$1/packages/${kind}/lock"`,
  ]);
  const hooks = fetched.map((command) => `--customize-hook=${command}`);
  const args = ['--variant=minbase', `--include=${BASE.join(',')}`, ...hooks, SUITE, draft, MIRROR];
  await run('mmdebstrap', args, { timeout: PATIENCE_MS, maxBuffer: 64 * 1024 ** 2 });
  renameSync(draft, folder);
  return folder;
}

function isThere(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
