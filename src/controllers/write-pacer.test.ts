import { expect, test } from 'vitest';
import { createPace, EASY_MS } from './write-pacer.ts';

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

/** ms until the last of `count` that come at once has had its turn, and how often they asked. */
function spread(count: number, took: (pace: ReturnType<typeof createPace>, turn: number) => void = () => {}) {
  let now = 0;
  let asked = 0;
  const pace = createPace(20, () => now);
  const waiting = new Map(Array.from({ length: count }, (_, index) => [`n${index}`, 0]));
  while (waiting.size > 0) {
    now = Math.min(...waiting.values());
    for (const [key, due] of waiting) {
      if (due > now) continue;
      asked++;
      const wait = pace.take(key);
      if (wait > 0) waiting.set(key, now + wait);
      else {
        waiting.delete(key);
        took(pace, count - waiting.size);
      }
    }
  }
  return { seconds: now / 1_000, asked };
}

test('a thousand that come at once are spread over their time, each asked twice', () => {
  const { seconds, asked } = spread(1_000, (pace) => pace.took(10));
  expect(seconds).toBeCloseTo(999 / 20);
  expect(asked).toBeLessThanOrEqual(2_000);
});

test('while writes are slow a tenth as many are made, and all get their turn', () => {
  const { seconds } = spread(200, (pace) => pace.took(EASY_MS + 1));
  expect(seconds).toBeGreaterThan(80);
  expect(seconds).toBeLessThanOrEqual(199 / 2);
});

test('once writes are quick again the pace recovers', () => {
  const { seconds } = spread(1_000, (pace, turn) => pace.took(turn < 20 ? 2 * EASY_MS : 10));
  expect(seconds).toBeLessThan(80);
});

test('places of those who no longer want one delay nobody, and are no burst', () => {
  const time = { now: 0 };
  const pace = createPace(20, () => time.now);
  const many = Array.from({ length: 1_000 }, (_, i) => `n${i}`);
  for (const key of many) pace.take(key);
  for (const key of many) pace.release(key);
  expect(pace.take('next')).toBeLessThanOrEqual(50);
  expect(pace.take('second')).toBeGreaterThanOrEqual(50);
});
