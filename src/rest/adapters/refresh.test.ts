import { describe, expect, test } from 'vitest';
import { createRefresh } from './refresh.ts';

const signal = AbortSignal.timeout(30_000);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('refresh', () => {
  test('consecutive callers wait in proportion to the duration of a run, not for a fixed time', async () => {
    let time = 0;
    let runs = 0;
    const refresh = createRefresh(
      async () => {
        runs++;
        time += 2;
      },
      { everyMs: 60_000, now: () => time + performance.now() / 1_000_000 },
    );
    const began = performance.now();
    for (let i = 0; i < 20; i++) {
      await refresh(signal);
      time += 8;
    }
    expect(runs).toBe(20);
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test('waiting callers share one run, and slow runs begin at the interval', async () => {
    const starts: number[] = [];
    const refresh = createRefresh(
      async () => {
        starts.push(performance.now());
        await pause(30);
      },
      { everyMs: 100 },
    );
    await Promise.all([refresh(signal), refresh(signal)]);
    expect(starts).toHaveLength(1);
    await Promise.all([refresh(signal), refresh(signal), pause(20).then(() => refresh(signal))]);
    expect(starts).toHaveLength(2);
    expect((starts[1] ?? 0) - (starts[0] ?? 0)).toBeGreaterThan(95);
  });

  test('a caller gets a run that began after its call', async () => {
    let runs = 0;
    const refresh = createRefresh(
      async () => {
        runs++;
        await pause(50);
      },
      { everyMs: 0 },
    );
    const first = refresh(signal);
    await pause(10);
    await refresh(signal);
    await first;
    expect(runs).toBe(2);
  });

  test('a failure rejects the waiting callers, and no later ones', async () => {
    let fails = true;
    const refresh = createRefresh(
      async () => {
        if (fails) throw new Error('no');
      },
      { everyMs: 0 },
    );
    await expect(refresh(signal)).rejects.toThrow('no');
    fails = false;
    await refresh(signal);
  });
});
