import { expect, test } from 'vitest';
import { createTokenBuckets } from './token-bucket.ts';

function createFixture(options: { capacity?: number } = {}) {
  let now = 1_000_000;
  const buckets = createTokenBuckets({ clock: { now: () => now }, burst: 100, perSecond: 10, ...options });
  const pass = (ms: number) => {
    now += ms;
  };
  return { buckets, pass };
}

test('a bucket grants its burst at once, then one token per interval', () => {
  const { buckets, pass } = createFixture();
  const granted = Array.from({ length: 110 }, () => buckets.take('a')).filter(Boolean);
  expect(granted).toHaveLength(100);
  expect(buckets.waitMs('a')).toBe(100);
  pass(100);
  expect([buckets.take('a'), buckets.take('a')]).toEqual([true, false]);
});

test('a charge above the burst delays its own key until the tokens are refilled, and no other key', () => {
  const { buckets, pass } = createFixture();
  buckets.charge('a', 300);
  expect(buckets.waitMs('a')).toBe(20_100);
  expect(buckets.take('b')).toBe(true);
  pass(20_000);
  expect(buckets.take('a')).toBe(false);
  pass(100);
  expect(buckets.waitMs('a')).toBe(0);
  expect(buckets.take('a')).toBe(true);
});

test('a request with a reserve waits while one without a reserve may take a token', () => {
  const { buckets } = createFixture();
  buckets.charge('a', 60);
  expect(buckets.waitMs('a')).toBe(0);
  expect(buckets.waitMs('a', 50)).toBe(1_100);
});

test('a bucket has at most its burst, even after a long time without requests', () => {
  const { buckets, pass } = createFixture();
  buckets.charge('a', 1);
  pass(3_600_000);
  buckets.charge('a', 100);
  expect(buckets.waitMs('a')).toBe(100);
});

test('a clock that is set back neither adds nor takes tokens', () => {
  const { buckets, pass } = createFixture();
  buckets.charge('a', 100);
  pass(-50_000);
  expect(buckets.waitMs('a')).toBe(100);
});

test('beyond the capacity full buckets are dropped first, then the oldest', () => {
  const { buckets, pass } = createFixture({ capacity: 2 });
  buckets.charge('full soon', 1);
  buckets.charge('empty', 100);
  pass(100);
  buckets.charge('third', 1);
  expect(buckets.waitMs('empty')).toBe(0);
  buckets.charge('empty', 10);
  expect(buckets.waitMs('empty')).toBe(1_000);
});
