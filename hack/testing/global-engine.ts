import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { findEngine, removeEngineData } from '../engine.ts';
import { startClock } from '../progress.ts';
import { startRegistry } from '../registry.ts';
import type {} from './provided.ts';

/** A container engine and an empty registry for all `*.engine.test.ts`. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dir = await mkdtemp(join(tmpdir(), 'skerry-engine-'));
  const log = startClock((text) => process.stderr.write(text));
  await using started = new AsyncDisposableStack();
  started.defer(() => rm(dir, { recursive: true, force: true }));
  const data = join(dir, 'engine');
  started.defer(() => removeEngineData(data));
  const registry = started.use(await startRegistry({ dir: join(dir, 'registry'), log }));
  const engine = started.use(await findEngine({ dir: data, registry: registry.host, log }));
  project.provide('engineUrl', engine.url);
  project.provide('registryUrl', registry.url);
  const owned = started.move();
  return () => owned.disposeAsync();
}
