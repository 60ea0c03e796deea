import { expect, test } from 'vitest';
import { backoffDelay, jittered } from './backoff.ts';

const backoff = { baseMs: 100, factor: 2, maxMs: 1_000, jitter: 0.5 };

test('the delay doubles with every failure up to the maximum', () => {
  const delays = [1, 2, 3, 4, 5, 6, 1_000].map((failures) => backoffDelay(backoff, failures, () => 0));
  expect(delays).toEqual([100, 200, 400, 800, 1_000, 1_000, 1_000]);
});

test('jitter shortens a delay by at most its share', () => {
  expect(backoffDelay(backoff, 1, () => 1)).toBe(50);
  expect(backoffDelay(backoff, 1, () => 0.5)).toBe(75);
});

test('spread makes a delay shorter or longer by at most its share, also the longest', () => {
  const spread = { baseMs: 100, factor: 2, maxMs: 1_000, spread: 0.5 };
  expect([0, 0.5, 1].map((random) => backoffDelay(spread, 2, () => random))).toEqual([100, 200, 300]);
  expect(backoffDelay(spread, 9, () => 1)).toBe(1_500);
});

test('a jittered period differs from its mean by at most its share', () => {
  expect(jittered(100, 0.1, () => 0)).toBeCloseTo(90);
  expect(jittered(100, 0.1, () => 1)).toBeCloseTo(110);
});
