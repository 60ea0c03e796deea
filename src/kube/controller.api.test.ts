import { expect, onTestFinished, test } from 'vitest';
import { churn, createProxied, startMirror, untilEqual } from './_api-server.ts';
import { createRandom, until } from './_util.ts';
import { createController, watching } from './controller.ts';
import { keyOf } from './object.ts';
import { done } from './outcome.ts';

test('with random writes and broken connections no key has two runs at once, and the last state of each object is reconciled', async () => {
  const { fixture, proxy, client: throughProxy } = await createProxied();
  const mirror = startMirror(fixture, throughProxy, {
    timing: { backoff: { baseMs: 20, factor: 2, maxMs: 200, jitter: 0.5 } },
  });
  const random = createRandom(3);
  const active = new Set<string>();
  const twice: string[] = [];
  const reconciled = new Map<string, string | undefined>();
  let most = 0;
  let runs = 0;
  const controller = createController({
    name: 'churn',
    watches: [watching(mirror.store)],
    concurrency: 5,
    backoff: { baseMs: 5, factor: 2, maxMs: 50, jitter: 0.5 },
    reconcile: async (key) => {
      if (active.has(key)) twice.push(key);
      active.add(key);
      most = Math.max(most, active.size);
      runs++;
      const version = mirror.store.getByKey(key)?.metadata.resourceVersion;
      await new Promise((resolve) => setTimeout(resolve, random() * 30));
      active.delete(key);
      if (random() < 0.2) throw new Error('no luck');
      reconciled.set(key, version);
      return done();
    },
  });
  onTestFinished(() => controller[Symbol.asyncDispose]());
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  void controller.run(stop.signal);
  for (let round = 0; round < 5; round++) {
    await churn(fixture, 120, { seed: round });
    proxy.cutAll();
  }
  await untilEqual(fixture, mirror.store);
  const settled = () =>
    mirror.store.list().every((object) => reconciled.get(keyOf(object)) === object.metadata.resourceVersion) &&
    [...reconciled].every(([key, version]) => mirror.store.getByKey(key)?.metadata.resourceVersion === version);
  await until('the last state of every object to be reconciled', settled);
  expect(twice).toEqual([]);
  expect(most).toBeGreaterThan(1);
  expect(most).toBeLessThanOrEqual(5);
  // Changes merge, so that the number of runs is not known exactly.
  expect(runs).toBeGreaterThan(20);
});
