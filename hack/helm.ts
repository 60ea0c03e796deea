import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild } from './go.ts';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import type { Log } from './progress.ts';

const MODULE = join(import.meta.dirname, 'tools', 'helm');

/**
 * Path of a helm, for the tests of the chart: the one on PATH, else one built from its Go module and kept in the user's
 * cache folder. It is no part of the local stack, so nobody waits for it who only wants that.
 */
export async function findHelm(log: Log = () => {}): Promise<string> {
  const onPath = spawnSync('helm', ['version', '--short'], { encoding: 'utf8' });
  if (onPath.status === 0 && /^v(3|4)\./.test(onPath.stdout)) return 'helm';
  const hash = createHash('sha256')
    .update(readFileSync(join(MODULE, 'go.mod')))
    .digest('hex')
    .slice(0, 12);
  const path = join(cacheFolder(), `helm-${hash}`, 'helm');
  if (existsSync(path)) return path;
  await using _one = await lock(join(cacheFolder(), 'helm.lock'));
  if (!existsSync(path))
    await goBuild({ name: 'helm', module: MODULE, package: 'helm.sh/helm/v4/cmd/helm', output: path, log });
  return path;
}
