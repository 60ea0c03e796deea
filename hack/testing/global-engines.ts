import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startContainerd } from '../containerd.ts';
import type { EngineKind } from '../engine.ts';
import { startClock } from '../progress.ts';
import { provideEngines } from './global-engine.ts';
import type {} from './provided.ts';

/**
 * Every kind of container engine and an empty registry for all `*.engine.test.ts`. SKERRY_ENGINE selects one kind, for a
 * machine that cannot run the others; SKERRY_CONTAINERD=2 takes containerd 2 for the agent's own engine.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const asked = process.env.SKERRY_ENGINE as EngineKind | 'embedded' | undefined;
  await using started = new AsyncDisposableStack();
  const kinds = asked === 'embedded' ? [] : asked ? [asked] : (['docker', 'podman'] as const);
  const others = provideEngines(project, kinds);
  const own = asked === undefined || asked === 'embedded' ? provideOwn(started) : [];
  const [engines, containerds] = await Promise.allSettled([others, own]);
  if (engines.status === 'fulfilled') started.defer(engines.value.stop);
  for (const each of [engines, containerds]) if (each.status === 'rejected') throw each.reason;
  if (engines.status === 'fulfilled' && containerds.status === 'fulfilled')
    project.provide('everyEngine', [...engines.value.engines, ...containerds.value]);
  const owned = started.move();
  return () => owned.disposeAsync();
}

/** The agent's own engine, as its unit starts it. */
async function provideOwn(started: AsyncDisposableStack) {
  const dir = await mkdtemp(join(tmpdir(), 'skerry-containerd-'));
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const log = startClock((text) => process.stderr.write(text));
  const { url } = started.use(await startContainerd({ dir, log }));
  return [{ kind: 'embedded' as const, url }];
}
