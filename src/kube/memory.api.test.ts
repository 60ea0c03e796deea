import type { ServerResponse } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, onTestFinished, test } from 'vitest';
import { churn, churnObject, createProxied, startMirror, untilEqual } from './_api-server.ts';
import { CONFIG_MAPS, makeConfigMap, until } from './_util.ts';
import { createController, watching } from './controller.ts';
import { done } from './outcome.ts';

setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;

const MIB = 2 ** 20;

function heapUsed(): number {
  collect();
  collect();
  return process.memoryUsage().heapUsed;
}

/** Resolves when the reader has read the buffered data, or has closed the connection. */
function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      response.off('drain', finish).off('close', finish);
      resolve();
    };
    response.on('drain', finish).on('close', finish);
  });
}

/** A controller with a run for every change, so that the memory of its queue is measured too. */
function startController(store: ReturnType<typeof startMirror>['store']) {
  const controller = createController({ name: 'memory', watches: [watching(store)], reconcile: async () => done() });
  onTestFinished(() => controller[Symbol.asyncDispose]());
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  void controller.run(stop.signal);
  return controller;
}

test('the memory does not grow during 5,000 writes at a real API server', async () => {
  const { fixture, client } = await createProxied();
  const mirror = startMirror(fixture, client);
  startController(mirror.store);
  fixture.client.observeWrites(CONFIG_MAPS, mirror.store);
  await churn(fixture, 500, { names: 50, bytes: 2_000 });
  await untilEqual(fixture, mirror.store);
  const before = heapUsed();
  await churn(fixture, 5_000, { names: 50, bytes: 2_000, seed: 2 });
  await untilEqual(fixture, mirror.store);
  // If they stayed in memory, 5,000 versions of 2 kB each would need 10 MB and more.
  expect((heapUsed() - before) / MIB).toBeLessThan(4);
}, 300_000);

test('the memory does not grow during 100,000 events, and no event is lost', async () => {
  const { fixture, proxy, client } = await createProxied();
  const count = 1_000;
  const events = 100_000;
  let sent = 0;
  proxy.inject(({ watch }) => watch, {
    async stream(response) {
      const write = async (type: string, object: unknown) => {
        if (!response.write(`${JSON.stringify({ type, object })}\n`)) await drained(response);
      };
      const object = (index: number, version: number) => {
        const base = churnObject(fixture, `a-${index}`, { text: 'x'.repeat(500), version: String(version) });
        return { ...base, metadata: { ...makeConfigMap(`a-${index}`, version).metadata, ...base.metadata } };
      };
      for (let i = 0; i < count; i++) await write('ADDED', object(i, 1_000 + i));
      const annotations = { 'k8s.io/initial-events-end': 'true' };
      await write('BOOKMARK', { metadata: { resourceVersion: '2000', annotations } });
      for (; sent < events && !response.destroyed; sent++) {
        await write('MODIFIED', object(sent % count, 2_001 + sent));
      }
    },
  });
  const mirror = startMirror(fixture, client);
  startController(mirror.store);
  await until('the first tenth', () => sent > events / 10);
  const before = heapUsed();
  let peak = before;
  for (let tenth = 2; tenth <= 10; tenth++) {
    await until(`${tenth} tenths`, () => sent >= (events * tenth) / 10, 60_000);
    peak = Math.max(peak, heapUsed());
  }
  const last = () => mirror.store.get(fixture.namespace, `a-${count - 1}`)?.metadata.resourceVersion;
  await until('the last event', () => last() === String(2_000 + events));
  const versions = mirror.store.list().map((object) => Number(object.metadata.resourceVersion));
  expect(versions.sort((a, b) => a - b)).toEqual(Array.from({ length: count }, (_, i) => 2_001 + events - count + i));
  // The objects need about 1 MB; if they stayed in memory, 90,000 events of 700 bytes would need 60 MB and more.
  expect((peak - before) / MIB).toBeLessThan(12);
  expect((heapUsed() - before) / MIB).toBeLessThan(6);
});

test('a slow reader of a watch slows the sender and loses no event', async () => {
  const { fixture, proxy, client } = await createProxied();
  const events = 4_000;
  const text = 'x'.repeat(10_000);
  let sent = 0;
  proxy.inject(({ watch }) => watch, {
    async stream(response) {
      for (; sent < events && !response.destroyed; sent++) {
        const object = churnObject(fixture, `a-${sent}`, { text });
        if (!response.write(`${JSON.stringify({ type: 'ADDED', object })}\n`)) await drained(response);
      }
      response.end();
    },
  });
  const seen: string[] = [];
  let stalledAt = 0;
  for await (const { object } of client.watch(CONFIG_MAPS, { namespace: fixture.namespace })) {
    seen.push(object.metadata.name);
    if (seen.length !== 10) continue;
    // Read nothing until the sender waits.
    const before = heapUsed();
    let last = -1;
    let same = 0;
    await until('the sender to stall', () => {
      same = sent === last ? same + 1 : 0;
      last = sent;
      return same > 20;
    });
    stalledAt = sent;
    expect((heapUsed() - before) / MIB).toBeLessThan(8);
  }
  expect(stalledAt).toBeLessThan(events);
  expect(seen).toEqual(Array.from({ length: events }, (_, i) => `a-${i}`));
});
