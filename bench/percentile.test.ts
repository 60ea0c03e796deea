import { describe, expect, test } from 'vitest';
import { percentile, spread } from './percentile.ts';

const upTo = (n: number) => Array.from({ length: n }, (_, i) => n - i);

describe('percentile', () => {
  test.each([
    ['the median of an odd number is the middle one', [3, 1, 2], 0.5, 2],
    ['the median of an even number is the lower middle one', [4, 1, 3, 2], 0.5, 2],
    ['p99 of a hundred leaves one out', upTo(100), 0.99, 99],
    ['p99 of twenty is the largest', upTo(20), 0.99, 20],
    ['0 is the smallest', upTo(20), 0, 1],
    ['1 is the largest', upTo(20), 1, 20],
    ['one sample is every percentile', [7], 0.5, 7],
    ['order is by number, not by text', [10, 9, 100], 0.5, 10],
  ])('%s', (_sentence, samples, share, want) => {
    expect(percentile(samples, share)).toBe(want);
  });

  test('of nothing there is none', () => {
    expect(percentile([], 0.5)).toBeNaN();
  });

  test('leaves the samples as they are', () => {
    const samples = [3, 1, 2];
    percentile(samples, 0.5);
    expect(samples).toEqual([3, 1, 2]);
  });
});

test('spread tells median, p99, largest and how many', () => {
  expect(spread(upTo(200))).toEqual({ n: 200, p50: 100, p99: 198, max: 200 });
});
