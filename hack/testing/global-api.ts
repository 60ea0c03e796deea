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
  const given = process.env.SKERRY_KUBECONFIG;
  if (given) {
    await installCrds(given);
    project.provide('kubeconfig', given);
    return async () => {};
  }
  const dir = await mkdtemp(join(tmpdir(), 'skerry-api-'));
  const cluster = await startControlPlane({ dir, log: startClock((text) => process.stderr.write(text)) });
  const teardown = async () => {
    await cluster.stop();
    if (!process.env.SKERRY_KEEP) await rm(dir, { recursive: true, force: true });
  };
  // A CRD that is refused fails the tests of its kind, not those of all other kinds.
  await installCrds(cluster.kubeconfig).catch((error: Error) => process.stderr.write(`${error.message}\n`));
  project.provide('kubeconfig', cluster.kubeconfig);
  return teardown;
}
