import { expect, test } from 'vitest';
import { createPace } from './pace.ts';

test('twenty a second means one every 50 ms, and no burst after a pause', () => {
  let now = 1_000;
  const pace = createPace(20, () => now);
  expect([pace.take('a'), pace.take('b'), pace.take('c')]).toEqual([0, 50, 100]);
  now += 10_000;
  expect([pace.take('d'), pace.take('e')]).toEqual([0, 50]);
});

test('who waits keeps its place, and has its turn once', () => {
  let now = 0;
  const pace = createPace(20, () => now);
  expect([pace.take('a'), pace.take('b'), pace.take('b'), pace.take('c')]).toEqual([0, 50, 50, 100]);
  now = 50;
  expect([pace.take('b'), pace.take('b')]).toEqual([0, 100]);
});

test('a thousand that come at once are spread over their time, each asked twice', () => {
  let now = 0;
  let asked = 0;
  const pace = createPace(20, () => now);
  const waiting = new Map(Array.from({ length: 1_000 }, (_, index) => [`n${index}`, 0]));
  while (waiting.size > 0) {
    now = Math.min(...waiting.values());
    for (const [key, due] of waiting) {
      if (due > now) continue;
      asked++;
      const wait = pace.take(key);
      if (wait === 0) waiting.delete(key);
      else waiting.set(key, now + wait);
    }
  }
  expect(now).toBe(999 * 50);
  expect(asked).toBeLessThanOrEqual(2_000);
});
