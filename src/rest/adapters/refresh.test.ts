import { describe, expect, test } from 'vitest';
import { createRefresh } from './refresh.ts';

const signal = AbortSignal.timeout(30_000);
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

describe('refresh', () => {
  test('callers that wait share one run, and runs are spaced', async () => {
    const starts: number[] = [];
    const refresh = createRefresh(
      async () => {
        starts.push(performance.now());
      },
      { everyMs: 100 },
    );
    await Promise.all([refresh(signal), refresh(signal)]);
    expect(starts).toHaveLength(1);
    await Promise.all([refresh(signal), refresh(signal), pause(20).then(() => refresh(signal))]);
    expect(starts).toHaveLength(2);
    expect((starts[1] ?? 0) - (starts[0] ?? 0)).toBeGreaterThan(95);
  });

  test('a run that began before the call does not count for it', async () => {
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

  test('a failure reaches those who waited, and only them', async () => {
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
