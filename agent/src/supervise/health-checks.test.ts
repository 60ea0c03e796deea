import { expect, test } from 'vitest';
import { type Clock, sleep } from '../../../src/lib/clock.ts';
import { silentLog } from '../../../src/lib/log.ts';
import type { Container } from '../engine-port/container.ts';
import { HealthChecks } from './health-checks.ts';
import { makeContainer, makeEntry } from './plan/_util.ts';

/** A clock that the test moves, and an engine whose checks take time. */
function createFixture({ takes = 0, fails = false } = {}) {
  let now = 1_000_000;
  let waiting: { at: number; go: () => void }[] = [];
  const clock: Clock = {
    now: () => now,
    wall: () => now,
    after: (milliseconds, go) => {
      const timer = { at: now + milliseconds, go };
      waiting.push(timer);
      return () => {
        waiting = waiting.filter((one) => one !== timer);
      };
    },
  };
  const calls: { id: string; since: number; at: number }[] = [];
  let changes = 0;
  let atOnce = 0;
  let most = 0;
  const checks = new HealthChecks({
    engine: {
      checkHealth: async (id, since) => {
        calls.push({ id, since: now - since, at: now - 1_000_000 });
        most = Math.max(most, ++atOnce);
        if (takes > 0) await sleep(takes, new AbortController().signal, clock);
        atOnce--;
        if (fails) throw new Error('the probe hangs');
      },
    },
    clock,
    log: silentLog,
    changed: () => changes++,
  });
  const pass = async (milliseconds: number) => {
    for (const end = now + milliseconds; ; ) {
      await new Promise((resolve) => setImmediate(resolve));
      const next = waiting.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
      if (!next) {
        now = end;
        return;
      }
      waiting = waiting.filter((one) => one !== next);
      now = next.at;
      next.go();
    }
  };
  return { checks, calls, pass, changes: () => changes, most: () => most };
}

const entry = makeEntry();
const running = (change: Partial<Container> = {}) => makeContainer(entry, { checkEvery: 10_000, ...change });

test.each([1, 0.001, 999])('an interval of %d ms gives one check a second', async (checkEvery) => {
  const { checks, calls, pass } = createFixture();
  checks.follow([running({ checkEvery })]);
  await pass(3_000);
  expect(calls.map(({ at }) => at)).toEqual([1_000, 2_000, 3_000]);
  checks.stop();
});

test('a check is run one interval after the start and then once per interval', async () => {
  const { checks, calls, pass, changes } = createFixture();
  checks.follow([running()]);
  await pass(9_999);
  expect(calls).toEqual([]);
  await pass(21_000);
  expect(calls.map(({ at }) => at)).toEqual([10_000, 20_000, 30_000]);
  expect(changes()).toBe(3);
});

test('a check is not repeated when the engine itself has checked in the last interval', async () => {
  const { checks, calls, pass } = createFixture();
  checks.follow([running()]);
  await pass(10_000);
  expect(calls[0]?.since).toBe(7_500);
});

test('a container has at most one check at a time', async () => {
  const { checks, calls, pass, most } = createFixture({ takes: 25_000 });
  for (let look = 0; look < 5; look++) checks.follow([running()]);
  await pass(80_000);
  expect(most()).toBe(1);
  expect(calls.map(({ at }) => at)).toEqual([10_000, 45_000, 80_000]);
});

test('a check that fails does not end the checks', async () => {
  const { checks, calls, pass } = createFixture({ fails: true });
  checks.follow([running()]);
  await pass(30_000);
  expect(calls).toHaveLength(3);
});

const ends: Record<string, Container[]> = {
  'it no longer exists': [],
  'it has ended': [running({ state: 'exited' })],
  'it is paused': [running({ paused: true })],
  'the engine checks by itself': [running({ checkEvery: undefined })],
};
for (const [why, containers] of Object.entries(ends))
  test(`a container is no longer checked when ${why}`, async () => {
    const { checks, calls, pass } = createFixture();
    checks.follow([running()]);
    await pass(10_000);
    checks.follow(containers);
    await pass(60_000);
    expect(calls).toHaveLength(1);
  });

test('the first check of another run of a container is one interval after its start', async () => {
  const { checks, calls, pass } = createFixture();
  checks.follow([running()]);
  await pass(5_000);
  checks.follow([running({ startedAt: 2000 })]);
  await pass(10_000);
  expect(calls.map(({ at }) => at)).toEqual([15_000]);
  checks.stop();
  await pass(60_000);
  expect(calls).toHaveLength(1);
});
