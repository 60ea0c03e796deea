import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { bundle, bundleController } from '../build.ts';
import api from './global-api.ts';
import engine from './global-engine.ts';

/** A control plane, a container engine, a registry, and controller and agent as bundles for the tests in e2e/. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using started = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), 'skerry-programs-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const [controller, agent] = await Promise.all([bundleController(dir), bundle('skerry-agent', dir)]);
  project.provide('programs', { controller, agent: agent.path });
  started.defer(await engine(project));
  started.defer(await api(project));
  const owned = started.move();
  return () => owned.disposeAsync();
}
