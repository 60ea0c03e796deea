import { describe, expect, test } from 'vitest';
import { percentile, spread } from './percentile.ts';

const upTo = (n: number) => Array.from({ length: n }, (_, i) => n - i);

describe('percentile', () => {
  test.each([
    ['the median of an odd number is the middle one', [3, 1, 2], 0.5, 2],
    ['the median of an even number is the lower middle one', [4, 1, 3, 2], 0.5, 2],
    ['p99 of a hundred is the second largest', upTo(100), 0.99, 99],
    ['p99 of twenty is the largest', upTo(20), 0.99, 20],
    ['the percentile of share 0 is the smallest', upTo(20), 0, 1],
    ['the percentile of share 1 is the largest', upTo(20), 1, 20],
    ['one sample is every percentile', [7], 0.5, 7],
    ['samples are sorted by number, not as text', [10, 9, 100], 0.5, 10],
  ])('%s', (_sentence, samples, share, want) => {
    expect(percentile(samples, share)).toBe(want);
  });

  test('is NaN for no samples', () => {
    expect(percentile([], 0.5)).toBeNaN();
  });

  test('does not change the order of the samples', () => {
    const samples = [3, 1, 2];
    percentile(samples, 0.5);
    expect(samples).toEqual([3, 1, 2]);
  });
});

test('spread returns the number of samples, the median, p99 and the largest one', () => {
  expect(spread(upTo(200))).toEqual({ n: 200, p50: 100, p99: 198, max: 200 });
});
