import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../src/lib/log.ts';
import type { AgentConfig, StatusReport } from '../../../src/wire/agent.ts';
import { MemoryEngine } from '../engines/memory/_engine.ts';
import { VirtualClock } from '../machine/_virtual-clock.ts';
import { memoryDatabase } from '../state/database.ts';
import { pruneImages, runPruning } from './pruning.ts';

const HOUR = 3600_000;

/** How often an image that nothing uses was removed within a time. */
async function prunings(settings: AgentConfig, measured: StatusReport, time: number): Promise<number> {
  const clock = new VirtualClock();
  const database = memoryDatabase();
  database.saveImage('sha256:old', 'old/image:1');
  let removed = 0;
  const removeImage = async () => {
    removed++;
    // It stays, so that the next pruning has something to remove as well.
    throw new Error('in use');
  };
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const machine = { measure: async () => measured };
  const pruneArtifacts = async () => {};
  const deps = {
    engine: Object.assign(new MemoryEngine(), { removeImage, imageBytes: async () => 0 }),
    database,
    log: silentLog,
    clock,
    random: () => 0.5,
    machine,
    pruneArtifacts,
  };
  void runPruning(
    { ...deps, settings: () => settings, containers: () => [], wantedReferences: () => new Set() },
    stop.signal,
  );
  await clock.advance(time);
  return removed;
}

const half: StatusReport = { systemAvailableDisk: 50, systemTotalDisk: 100, diskUsage: 1 };

test.each<[string, AgentConfig, StatusReport, number]>([
  ['off by default', {}, half, 0],
  ['off with a frequency of 0', { pruningFrequency: 0 }, half, 0],
  ['every two hours with a frequency of 2', { pruningFrequency: 2 }, half, 3],
  ['off while more of the disk is free than the threshold says', { availableDiskThreshold: 20 }, half, 0],
  ['on while less of the disk is free than the threshold says', { availableDiskThreshold: 60 }, half, 36],
  ['off while the agent takes less than its disk limit', { diskLimit: 2 }, half, 0],
  ['on while the agent takes more than its disk limit', { diskLimit: 0.5 }, half, 36],
])('pruning is %s', async (_, settings, measured, want) => {
  expect(await prunings(settings, measured, 6 * HOUR + 1)).toBe(want);
});

test('a prune of images leaves an image that a microservice is to run, and an image that a container of somebody else has', async () => {
  const database = memoryDatabase();
  const engine = new MemoryEngine({ anyImage: true });
  const pull = async (reference: string) => {
    const id = await engine.pull({ reference, platform: '' });
    database.saveImage(id, reference);
    return id;
  };
  await pull('next/web:1');
  await pull('old/web:1');
  const imageId = await pull('foreign/web:1');
  engine.imageUses = async () => [{ imageId, container: 'someone' }];
  const wantedReferences = () => new Set(['docker.io/next/web:1']);
  const { removed, kept } = await pruneImages({
    engine,
    database,
    containers: () => [],
    wantedReferences,
    log: silentLog,
  });
  expect([removed.map(({ reference }) => reference), kept]).toEqual([['old/web:1'], {}]);
  expect([...engine.images.keys()]).toEqual(['next/web:1', 'foreign/web:1']);
});
