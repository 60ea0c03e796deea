import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild } from './go.ts';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import type { Log } from './progress.ts';

const MODULE = join(import.meta.dirname, 'tools', 'prometheus');

/**
 * Path of a promtool, for the tests of alert rules: the one on PATH, else one built from its Go module and kept in the
 * user's cache folder. Without service discovery, which is most of its code.
 */
export async function findPromtool(log: Log = () => {}): Promise<string> {
  const onPath = spawnSync('promtool', ['--version'], { encoding: 'utf8' });
  if (onPath.status === 0 && /version [23]\./.test(`${onPath.stdout}${onPath.stderr}`)) return 'promtool';
  const hash = createHash('sha256')
    .update(readFileSync(join(MODULE, 'go.mod')))
    .digest('hex')
    .slice(0, 12);
  const path = join(cacheFolder(), `promtool-${hash}`, 'promtool');
  if (existsSync(path)) return path;
  await using _one = await lock(join(cacheFolder(), 'promtool.lock'));
  if (!existsSync(path))
    await goBuild({
      name: 'promtool',
      module: MODULE,
      package: 'github.com/prometheus/prometheus/cmd/promtool',
      tags: ['remove_all_sd'],
      output: path,
      log,
    });
  return path;
}
