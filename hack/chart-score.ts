import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from './paths.ts';
import type { Log } from './progress.ts';
import { buildTool, toolPath } from './tool.ts';

/** What kube-score asks for and the chart deliberately does not do, by the test's id, with the reason. */
const LEFT_OUT: Readonly<Record<string, string>> = {
  'container-image-pull-policy':
    'releases have tags that never change, and a node that is cut off from its registry starts a replica',
  'pod-networkpolicy':
    'the API server has no address that a policy for egress could name in every cluster; jobs and the test serve no port',
  'deployment-has-host-podantiaffinity': 'topologySpreadConstraints spread the replicas over hosts and zones',
};
/** Not a test of its own: a leader whose CPU is limited renews its Lease late (docs/sizing.md). */
const FLAGS = ['--ignore-container-cpu-limit'];

/** Path of a kube-score, built from its Go module once. */
export const findKubeScore = (log?: Log) =>
  buildTool('kube-score', 'github.com/zegl/kube-score/cmd/kube-score', { log });

/** What kube-score finds in the rendered chart besides what is left out; nothing when all is well. */
export function scoreChart({ helm, kubeScore }: { helm: string; kubeScore: string }): string | undefined {
  const chart = join(ROOT, 'charts/skerry');
  const rendered = spawnSync(helm, ['template', 'skerry', chart, '--namespace', 'skerry'], { encoding: 'utf8' });
  if (rendered.status !== 0) return `helm template: ${rendered.stderr}`;
  const ignored = Object.keys(LEFT_OUT).flatMap((id) => ['--ignore-test', id]);
  const scored = spawnSync(kubeScore, ['score', ...FLAGS, ...ignored, '--output-format', 'ci', '-'], {
    input: rendered.stdout,
    encoding: 'utf8',
  });
  const problems = scored.stdout.split('\n').filter((line) => /^\[(CRITICAL|WARNING)\]/.test(line));
  if (problems.length > 0) return problems.join('\n');
  return scored.status === 0 && scored.stdout.includes('[OK]')
    ? undefined
    : `kube-score: ${scored.stdout}${scored.stderr}`;
}

/** The same with tools that were built before: their first build takes minutes, which is for the tests of the chart. */
export function scoreBuiltChart(): string | undefined {
  const [helm, kubeScore] = [toolPath('helm'), toolPath('kube-score')];
  if (existsSync(helm) && existsSync(kubeScore)) return scoreChart({ helm, kubeScore });
  process.stdout.write('the chart is scored by hack/chart.api.test.ts, which builds helm and kube-score\n');
  return undefined;
}
