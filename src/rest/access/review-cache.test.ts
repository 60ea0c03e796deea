import { describe, expect, test } from 'vitest';
import { createReviewCache } from './review-cache.ts';

const signal = new AbortController().signal;

function start() {
  let time = 0;
  const asked: ((answer: boolean) => void)[] = [];
  const cache = createReviewCache<boolean>({
    lifetimeMs: () => 30_000,
    capacity: 10,
    allows: (value) => value,
    now: () => time,
  });
  const ask = () => cache.ask('key', () => new Promise<boolean>((resolve) => asked.push(resolve)), signal);
  return { cache, ask, asked, at: (ms: number) => (time = ms) };
}
/** The answer to the last review. */
const answer = (asked: ((answer: boolean) => void)[], value: boolean) => asked.at(-1)?.(value);
const turns = () => new Promise((resolve) => setImmediate(resolve));

describe('a flush', () => {
  test('forgets what was known', async () => {
    const { cache, ask, asked } = start();
    const first = ask();
    answer(asked, true);
    expect((await first).value).toBe(true);
    expect(await ask()).toEqual({ value: true, cached: true });
    cache.flush();
    const again = ask();
    answer(asked, false);
    expect(await again).toEqual({ value: false, cached: false });
    expect(asked).toHaveLength(2);
  });

  test('ends reviews under way: their callers get the answer to a later one', async () => {
    const { cache, ask, asked } = start();
    const before = ask();
    cache.flush();
    const after = ask();
    expect(asked).toHaveLength(2);
    asked[0]?.(true);
    asked[1]?.(false);
    expect([(await before).value, (await after).value]).toEqual([false, false]);
  });

  test('is not undone by a review of before that ends after one of now', async () => {
    const { cache, ask, asked } = start();
    const before = ask();
    cache.flush();
    const after = ask();
    asked[1]?.(false);
    await after;
    asked[0]?.(true);
    expect((await before).value).toBe(false);
    expect((await ask()).value).toBe(false);
  });

  test('after flush leads to the answer to the last of three reviews, and no cache keeps it', async () => {
    const { cache, ask, asked } = start();
    const asking = ask();
    for (const value of [false, false, true]) {
      cache.flush();
      answer(asked, value);
      await turns();
    }
    expect(await asking).toEqual({ value: true, cached: false });
    expect(asked).toHaveLength(3);
    void ask();
    expect(asked).toHaveLength(4);
  });

  test('keeps answers for a tenth of a second only, while the cluster may not have noticed', async () => {
    const { cache, ask, asked, at } = start();
    cache.flush();
    const first = ask();
    answer(asked, true);
    await first;
    at(101);
    const second = ask();
    expect(asked).toHaveLength(2);
    answer(asked, true);
    await second;
    at(1_001);
    const third = ask();
    answer(asked, false);
    await third;
    at(20_000);
    expect(await ask()).toEqual({ value: false, cached: true });
  });
});
