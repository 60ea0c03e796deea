import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { startContainerd } from '../containerd.ts';
import { type EngineKind, findEngine, removeEngineData } from '../engine.ts';
import { type Log, startClock } from '../progress.ts';
import { startRegistry } from '../registry.ts';
import type {} from './provided.ts';

/** A kind of engine of a test run: the agent's own is `embedded`. */
export type TestEngineKind = EngineKind | 'embedded';

/** The kind that SKERRY_ENGINE asks for. */
export const askedKind = () => process.env.SKERRY_ENGINE as TestEngineKind | undefined;

/** A container engine and an empty registry for the tests in e2e/. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  return provideEngines(project, [askedKind()]);
}

/** Starts engines in parallel, and a registry for all of them. Undefined stands for any kind that is available. */
export async function provideEngines(
  project: TestProject,
  kinds: readonly (TestEngineKind | undefined)[],
): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'skerry-engine-'));
  const log = startClock((text) => process.stderr.write(text));
  await using started = new AsyncDisposableStack();
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const registry = started.use(await startRegistry({ dir: join(dir, 'registry'), log }));
  const starting = kinds.map((kind) =>
    startTestEngine({ kind, dir: join(dir, kind ?? 'engine'), registry: registry.host, log }, started),
  );
  // All are awaited even when one fails, so that none starts after the others were stopped.
  const failed = (await Promise.allSettled(starting)).find(({ status }) => status === 'rejected');
  if (failed && kinds.length > 1) {
    const { message } = (failed as PromiseRejectedResult).reason as Error;
    throw new Error(`${message}\nWith SKERRY_ENGINE the tests run on one engine alone: SKERRY_ENGINE=${kinds[0]}`);
  }
  const engines = await Promise.all(starting);
  project.provide('everyEngine', engines);
  project.provide('engineUrl', engines[0]?.url ?? '');
  project.provide('registryUrl', registry.url);
  const owned = started.move();
  return () => owned.disposeAsync();
}

export interface TestEngineOptions {
  /** any kind that is available when absent */
  kind: TestEngineKind | undefined;
  dir: string;
  /** host of a registry without TLS */
  registry: string;
  log?: Log | undefined;
}

/** Finds or starts one engine; `started` stops what was started. */
export async function startTestEngine(
  { kind, dir, registry, log }: TestEngineOptions,
  started: AsyncDisposableStack,
): Promise<{ kind: TestEngineKind; url: string }> {
  // The agent's own engine, as its unit starts it.
  if (kind === 'embedded') return { kind, url: started.use(await startContainerd({ dir, log })).url };
  started.defer(() => removeEngineData(dir));
  const { kind: found, url } = started.use(await findEngine({ dir, kind, registry, log }));
  return { kind: found, url };
}
