import { expect, test } from 'vitest';
import { createWritePacer, SLOW_WRITE_MS } from './write-pacer.ts';

test('20 turns a second are one every 50 ms, without a burst after a pause', () => {
  let now = 1_000;
  const pace = createWritePacer(20, () => now);
  expect([pace.take('a'), pace.take('b'), pace.take('c')]).toEqual([0, 50, 100]);
  now += 10_000;
  expect([pace.take('d'), pace.take('e')]).toEqual([0, 50]);
});

test('a key that waits keeps its place and has one turn', () => {
  let now = 0;
  const pace = createWritePacer(20, () => now);
  expect([pace.take('a'), pace.take('b'), pace.take('b'), pace.take('c')]).toEqual([0, 50, 50, 100]);
  now = 50;
  expect([pace.take('b'), pace.take('b')]).toEqual([0, 100]);
});

/** Seconds until the last of `count` keys that come at once has had its turn, and how often they asked. */
function spread(count: number, took: (pace: ReturnType<typeof createWritePacer>, turn: number) => void = () => {}) {
  let now = 0;
  let asked = 0;
  const pace = createWritePacer(20, () => now);
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

test('1,000 keys at once take 50 s, and each calls the pacer at most twice', () => {
  const { seconds, asked } = spread(1_000, (pace) => pace.observeWrite(10));
  expect(seconds).toBeCloseTo(999 / 20);
  expect(asked).toBeLessThanOrEqual(2_000);
});

test('slow writes lower the rate to a tenth, and every key gets its turn', () => {
  const { seconds } = spread(200, (pace) => pace.observeWrite(SLOW_WRITE_MS + 1));
  expect(seconds).toBeGreaterThan(80);
  expect(seconds).toBeLessThanOrEqual(199 / 2);
});

test('quick writes raise the rate again', () => {
  const { seconds } = spread(1_000, (pace, turn) => pace.observeWrite(turn < 20 ? 2 * SLOW_WRITE_MS : 10));
  expect(seconds).toBeLessThan(80);
});

test('released places delay no later key and allow no burst', () => {
  const time = { now: 0 };
  const pace = createWritePacer(20, () => time.now);
  const many = Array.from({ length: 1_000 }, (_, i) => `n${i}`);
  for (const key of many) pace.take(key);
  for (const key of many) pace.release(key);
  expect(pace.take('next')).toBeLessThanOrEqual(50);
  expect(pace.take('second')).toBeGreaterThanOrEqual(50);
});
