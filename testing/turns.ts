import { type PerformanceEntry, PerformanceObserver } from 'node:perf_hooks';
import { expect } from 'vitest';

/** Milliseconds of the processor that one turn of the event loop may take. */
const TURN_BUDGET = 50;
const MIB = 2 ** 20;

const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
};

/** How much slower this machine is now than a machine that searches a megabyte in a millisecond; at least 1. */
function slowness(): number {
  const text = 'a'.repeat(MIB);
  const times = [1, 2, 3].map(() => {
    const began = cpu();
    /[^a]/.test(text);
    return cpu() - began;
  });
  return Math.max(1, Math.min(...times));
}

/** A stretch of time by `performance.now`, and the milliseconds of the processor or of a collection in it. */
interface Stretch {
  from: number;
  to: number;
  ms: number;
}

/** Turns that are shorter than this are no candidates. */
const SHORT_MS = 10;

/** The longest turn while something is done, in ms of the processor, without the collections of garbage in it. */
async function longestTurn(act: () => Promise<unknown>): Promise<number> {
  const turns: Stretch[] = [];
  const collections: Stretch[] = [];
  const note = (entries: readonly PerformanceEntry[]) => {
    for (const { startTime, duration } of entries)
      if (duration > 1) collections.push({ from: startTime, to: startTime + duration, ms: duration });
  };
  const observer = new PerformanceObserver((list) => note(list.getEntries()));
  observer.observe({ entryTypes: ['gc'] });
  let isOver = false;
  let [last, from] = [cpu(), performance.now()];
  const turn = () => {
    const [now, to] = [cpu(), performance.now()];
    if (now - last > SHORT_MS) turns.push({ from, to, ms: now - last });
    [last, from] = [now, to];
    if (!isOver) setImmediate(turn);
  };
  setImmediate(turn);
  await act();
  turn();
  isOver = true;
  // What was collected last is announced in a later turn.
  await new Promise((resolve) => setTimeout(resolve, 10));
  note(observer.takeRecords());
  observer.disconnect();
  const own = turns.map(({ from, to, ms }) => {
    const within = collections.filter((one) => one.from >= from && one.to <= to);
    // Collections are timed by the clock: on a busy machine that is more than their time of the processor, and so is the turn.
    return ms * (1 - within.reduce((sum, one) => sum + one.ms, 0) / (to - from));
  });
  return Math.max(0, ...own);
}

/** The best of some times: the first ones compile. */
export async function expectShortTurns(
  act: () => Promise<unknown>,
  { budget = TURN_BUDGET, times = 6 }: { budget?: number; times?: number } = {},
): Promise<void> {
  let best = Number.POSITIVE_INFINITY;
  for (let i = 0; i < times && best > budget; i++) best = Math.min(best, await longestTurn(act));
  expect(best).toBeLessThan(budget * slowness());
}
