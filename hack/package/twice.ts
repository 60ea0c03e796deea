import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makeReleaseKey } from '../agent-release.ts';
import { ROOT } from '../paths.ts';

/**
 * Makes the release of the commit in two places, one after the other, in other time zones and under other umasks, and names the
 * files that differ: `node hack/package/twice.ts`.
 */
const PLACES = [
  { name: 'one', umask: '022', env: { TZ: 'UTC', LC_ALL: 'C' } },
  { name: 'another/place-with-a-longer-path', umask: '077', env: { TZ: 'Pacific/Auckland', LC_ALL: 'C.UTF-8' } },
] as const;

async function main(): Promise<number> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-twice-'));
  try {
    const key = join(dir, 'release.key');
    writeFileSync(key, makeReleaseKey().privateKey, { mode: 0o600 });
    const sums: string[] = [];
    const commit = execFileSync('git', ['rev-parse', 'HEAD'], { cwd: ROOT, encoding: 'utf8' }).trim();
    for (const place of PLACES) {
      const folder = join(dir, place.name);
      mkdirSync(join(folder, '..'), { recursive: true });
      execFileSync('git', ['clone', '--quiet', '--no-checkout', ROOT, folder], { stdio: 'inherit' });
      execFileSync('git', ['checkout', '--quiet', '--detach', commit], { cwd: folder, stdio: 'inherit' });
      // Not a link: a bundler names what it finds by its real path.
      execFileSync('cp', ['-a', '--link', join(ROOT, 'node_modules'), folder]);
      await release(folder, place.umask, { ...process.env, ...place.env, KEY: key });
      sums.push(readFileSync(join(folder, 'dist/SHA256SUMS'), 'utf8'));
      // One whole release is on the disk at a time.
      rmSync(folder, { recursive: true });
    }
    return compare(sums[0] ?? '', sums[1] ?? '');
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

function release(folder: string, umask: string, env: NodeJS.ProcessEnv): Promise<void> {
  const command = `umask ${umask}; exec "$0" hack/package/main.ts`;
  const child = spawn('sh', ['-c', command, process.execPath], { cwd: folder, env, stdio: 'inherit' });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code) => (code === 0 ? resolve() : reject(new Error(`the release failed with ${code}`))));
  });
}

function compare(first: string, second: string): number {
  const others = new Set(second.split('\n'));
  const differing = first.split('\n').filter((line) => !others.has(line));
  const count = first.trim().split('\n').length;
  if (first === second && first !== '') {
    process.stdout.write(`${count} files, the same twice\n`);
    return 0;
  }
  process.stdout.write(`of ${count} files these differ:\n${differing.map((line) => `  ${line}\n`).join('')}`);
  return 1;
}

if (import.meta.main) process.exitCode = await main();
