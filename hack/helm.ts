import { spawnSync } from 'node:child_process';
import type { Log } from './progress.ts';
import { buildTool } from './tool.ts';

/** Path of a helm for the tests of the chart: the one on PATH, else one built from its Go module. */
export async function findHelm(log?: Log): Promise<string> {
  const onPath = spawnSync('helm', ['version', '--short'], { encoding: 'utf8' });
  if (onPath.status === 0 && /^v(3|4)\./.test(onPath.stdout)) return 'helm';
  return buildTool('helm', 'helm.sh/helm/v4/cmd/helm', { log });
}
