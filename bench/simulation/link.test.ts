import { describe, expect, test } from 'vitest';
import { delayOf } from './link.ts';

const average = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

describe('a simulated link', () => {
  const many = (loss: number) =>
    Array.from({ length: 20_000 }, () => delayOf({ roundTripMs: 100, loss, cuts: 0 }, Math.random));

  test('takes half a round trip on average for one way, and never less than a quarter', () => {
    const delays = many(0);
    expect(average(delays)).toBeCloseTo(50, -1);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(25);
    expect(Math.max(...delays)).toBeLessThanOrEqual(75);
  });

  test('adds the time of a retransmission for each lost segment', () => {
    const late = many(0.1).filter((delay) => delay > 75);
    expect(late.length / 20_000).toBeCloseTo(0.1, 1);
    expect(Math.min(...late)).toBeGreaterThan(300);
  });
});
