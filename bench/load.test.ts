import { expect, test } from 'vitest';
import { assertAllAnswered, closedLoop, openLoop } from './load.ts';

test('a closed loop sends each request once, with no more than `concurrency` at a time', async () => {
  const sent: number[] = [];
  let open = 0;
  let most = 0;
  const load = await closedLoop(20, 3, async (i) => {
    sent.push(i);
    most = Math.max(most, ++open);
    await new Promise((resolve) => setImmediate(resolve));
    open--;
  });
  expect(sent).toEqual(Array.from({ length: 20 }, (_, i) => i));
  expect(most).toBe(3);
  expect(load.latencies).toHaveLength(20);
});

test('the latencies of an open loop include the delay of requests that could not be sent in time', async () => {
  let blocked = false;
  const load = await openLoop(1000, 0.1, async () => {
    if (blocked) return;
    blocked = true;
    const until = performance.now() + 50;
    while (performance.now() < until);
  });
  expect(load.latencies).toHaveLength(100);
  expect(Math.max(...load.latencies)).toBeGreaterThan(40);
});

test('failed requests are counted by their message, and have no latency', async () => {
  const load = await closedLoop(4, 2, async (i) => {
    if (i % 2) throw new Error('503');
  });
  expect(load.latencies).toHaveLength(2);
  expect(load.failures).toEqual(new Map([['503', 2]]));
  expect(() => assertAllAnswered(load)).toThrow('2 x 503');
});
