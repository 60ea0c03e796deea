import { spawnSync } from 'node:child_process';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';

/**
 * Path of a promtool for the tests of alert rules: the one on PATH, else one built from its Go module without service
 * discovery, which is most of its code.
 */
export async function findPromtool(log?: Log): Promise<string> {
  const onPath = spawnSync('promtool', ['--version'], { encoding: 'utf8' });
  if (onPath.status === 0 && /version [23]\./.test(`${onPath.stdout}${onPath.stderr}`)) return 'promtool';
  return buildTool('promtool', 'github.com/prometheus/prometheus/cmd/promtool', { log, tags: ['remove_all_sd'] });
}
