import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { installCrds, startControlPlane } from '../control-plane.ts';
import { startClock } from '../progress.ts';
import type {} from './provided.ts';

/**
 * One control plane for all `*.api.test.ts`. With SKERRY_KUBECONFIG the tests run against that cluster instead; they
 * write to it.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // Half as much garbage collection takes a tenth of the API server's CPU time away, for 150 MiB.
  process.env.GOGC ??= '200';
  const given = process.env.SKERRY_KUBECONFIG;
  if (given) {
    await installCrds(given);
    project.provide('kubeconfig', given);
    return async () => {};
  }
  await using started = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'skerry-api-'));
  if (!process.env.SKERRY_KEEP) started.defer(() => rm(dir, { recursive: true, force: true }));
  const cluster = await startControlPlane({ dir, log: startClock((text) => process.stderr.write(text)) });
  started.defer(() => cluster.stop());
  // Without one of them, tests of other kinds fail as well, by controllers that do not become ready.
  await installCrds(cluster.kubeconfig);
  project.provide('kubeconfig', cluster.kubeconfig);
  const owned = started.move();
  return () => owned.disposeAsync();
}
