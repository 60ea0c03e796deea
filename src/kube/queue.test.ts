import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { eachTurn } from '../../testing/turns.ts';
import { createVirtualClock, settle } from './_util.ts';
import { createQueue, type QueueOptions } from './queue.ts';

/** A queue with runs that the test ends, and a record of these runs. */
function makeQueue(options: Partial<QueueOptions> = {}) {
  const clock = createVirtualClock();
  const runs: { key: string; at: number; failures: number }[] = [];
  const open: { key: string; finish: (again?: number) => void; fail: () => void }[] = [];
  const queue = createQueue({
    clock,
    random: () => 0,
    concurrency: 2,
    backoff: { baseMs: 100, factor: 2, maxMs: 1_000, jitter: 0.5 },
    work: (key, { failures }) => {
      runs.push({ key, at: clock.now(), failures });
      const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
      open.push({ key, finish: resolve, fail: () => reject(new Error('no')) });
      return promise;
    },
    ...options,
  });
  onTestFinished(() => {
    for (const run of open) run.finish();
    return queue.close();
  });
  const next = async () => {
    await settle();
    const run = open.shift();
    if (!run) throw new Error('nothing runs');
    return run;
  };
  return { queue, clock, runs, open, next, keys: () => runs.map((run) => run.key) };
}

test('runs of several queues that wait for nothing leave the event loop its turns', async () => {
  const busy = () => {
    const until = performance.now() + 0.2;
    while (performance.now() < until);
  };
  const queues = [1, 2, 3].map(() => makeQueue({ work: async () => void busy(), concurrency: 4 }).queue);
  let turns = 0;
  using _turns = eachTurn(() => turns++);
  for (const queue of queues) for (let i = 0; i < 500; i++) queue.add(`${i}`);
  await Promise.all(queues.map((queue) => queue.whenIdle()));
  // 300 ms of work: a turn after 8 ms of it, and more only where the machine is slow.
  expect(turns).toBeGreaterThan(20);
});

describe('the queue', () => {
  test('merges equal keys', async () => {
    const { queue, keys } = makeQueue({ concurrency: 10 });
    for (const key of ['a', 'b', 'a', 'a', 'b']) queue.add(key);
    await settle();
    expect(keys()).toEqual(['a', 'b']);
  });

  test('runs a key that was added during its run once more, after that run has ended', async () => {
    const { queue, keys, next } = makeQueue();
    queue.add('a');
    const first = await next();
    queue.add('a');
    queue.add('a');
    await settle();
    expect(keys()).toEqual(['a']);
    first.finish();
    (await next()).finish();
    await queue.whenIdle();
    expect(keys()).toEqual(['a', 'a']);
  });

  test('has no more runs at once than its concurrency', async () => {
    const { queue, keys, next } = makeQueue({ concurrency: 2 });
    for (const key of ['a', 'b', 'c', 'd']) queue.add(key);
    await settle();
    expect(keys()).toEqual(['a', 'b']);
    expect(queue.depth).toBe(4);
    (await next()).finish();
    await settle();
    expect(keys()).toEqual(['a', 'b', 'c']);
  });

  test('runs a delayed key when it is due, not earlier', async () => {
    const { queue, clock, keys } = makeQueue();
    queue.add('a', { afterMs: 500 });
    await clock.advance(499);
    expect(keys()).toEqual([]);
    await clock.advance(1);
    expect(keys()).toEqual(['a']);
  });

  test.each([
    ['second', 100, 900],
    ['first', 900, 100],
  ])('applies the earlier of two due times when the later one is added %s', async (_name, first, second) => {
    const { queue, clock, keys } = makeQueue();
    queue.add('a', { afterMs: first });
    queue.add('a', { afterMs: second });
    await clock.advance(100);
    expect(keys()).toEqual(['a']);
    await clock.advance(5_000);
    expect(keys()).toEqual(['a']);
  });

  test('runs a key again after the delay that its run returned', async () => {
    const { queue, clock, next, runs } = makeQueue();
    queue.add('a');
    const start = clock.now();
    (await next()).finish(300);
    await clock.advance(1_000);
    expect(runs.map((run) => run.at - start)).toEqual([0, 300]);
  });

  test('runs a key that was added during its run without the delay that the run returned', async () => {
    const { queue, next, keys } = makeQueue();
    queue.add('a');
    const first = await next();
    queue.add('a');
    first.finish(60_000);
    await settle();
    expect(keys()).toEqual(['a', 'a']);
  });

  test('counts consecutive failures and resets the count after a success', async () => {
    const { queue, clock, next, runs } = makeQueue();
    queue.add('a');
    for (let i = 0; i < 4; i++) {
      (await next()).fail();
      await clock.advance(1_000);
    }
    (await next()).finish();
    expect(runs.map((run) => run.failures)).toEqual([0, 1, 2, 3, 4]);
    queue.add('a');
    (await next()).fail();
    const failedAt = clock.now();
    await clock.advance(1_000);
    expect(runs.slice(5)).toEqual([
      { key: 'a', at: failedAt, failures: 0 },
      { key: 'a', at: failedAt + 100, failures: 1 },
    ]);
  });

  test.each([
    [0, [100, 200, 400, 800, 1_000, 1_000]],
    [1, [50, 100, 200, 400, 500, 500]],
  ])('delays failed keys exponentially, and jitter only shortens the delay (random = %d)', async (random, want) => {
    const clock = createVirtualClock();
    const starts: number[] = [];
    await using _queue = createQueue({
      clock,
      random: () => random,
      backoff: { baseMs: 100, factor: 2, maxMs: 1_000, jitter: 0.5 },
      work: async () => {
        starts.push(clock.now());
        throw new Error('no');
      },
    });
    _queue.add('a');
    await clock.advance(want.reduce((sum, ms) => sum + ms, 0));
    expect(starts.slice(1).map((at, i) => at - (starts[i] ?? 0))).toEqual(want);
  });

  test('runs a failed key that is added again without waiting for the backoff', async () => {
    const { queue, next, keys } = makeQueue();
    queue.add('a');
    (await next()).fail();
    await settle();
    queue.add('a');
    await settle();
    expect(keys()).toEqual(['a', 'a']);
  });

  test('runs keys of normal priority first, and a low key becomes normal when it is added as such', async () => {
    const { queue, keys, next } = makeQueue({ concurrency: 1 });
    queue.add('running');
    await settle();
    for (const key of ['low-1', 'low-2', 'low-3']) queue.add(key, { priority: 'low' });
    queue.add('normal');
    queue.add('low-3');
    for (let i = 0; i < 5; i++) (await next()).finish();
    expect(keys()).toEqual(['running', 'normal', 'low-3', 'low-1', 'low-2']);
  });

  test('runs a key of low priority although keys of normal priority are waiting all the time', async () => {
    const { queue, keys, next } = makeQueue({ concurrency: 1 });
    queue.add('low', { priority: 'low' });
    for (let i = 0; i < 100; i++) queue.add(`normal-${i}`);
    for (let i = 0; i < 20; i++) (await next()).finish();
    expect(keys()).toContain('low');
  });

  test('starts no run after close, which aborts the signals of present runs and waits for them', async () => {
    const signals: AbortSignal[] = [];
    const { promise: work, resolve: finish } = Promise.withResolvers<undefined>();
    const started: string[] = [];
    const queue = createQueue({
      concurrency: 1,
      work: (key, { signal }) => {
        started.push(key);
        signals.push(signal);
        return work;
      },
    });
    queue.add('a');
    queue.add('b');
    await settle();
    let closed = false;
    const closing = queue.close().then(() => {
      closed = true;
    });
    await settle();
    expect(signals[0]?.aborted).toBe(true);
    expect(closed).toBe(false);
    finish(undefined);
    await closing;
    queue.add('c');
    await settle();
    expect(started).toEqual(['a']);
  });

  test('resolves whenIdle when it is closed', async () => {
    const { queue } = makeQueue();
    queue.add('a');
    const idle = queue.whenIdle();
    await queue.close();
    await idle;
  });

  test('never has two runs of a key at once, loses no key, and has no state of completed keys', async () => {
    const step = fc.record({
      key: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      afterMs: fc.constantFrom(0, 0, 5, 50),
      low: fc.boolean(),
      pass: fc.constantFrom(0, 1, 10),
    });
    const fate = fc.record({ takes: fc.constantFrom(0, 1, 7, 30), fails: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 60 }), fc.infiniteStream(fate), async (steps, fates) => {
        const clock = createVirtualClock();
        const active = new Set<string>();
        const wantedAt = new Map<string, number>();
        const startedAt = new Map<string, number>();
        let most = 0;
        await using queue = createQueue({
          clock,
          random: () => 0.5,
          concurrency: 2,
          backoff: { baseMs: 10, factor: 2, maxMs: 100, jitter: 0 },
          work: async (key, { failures }) => {
            expect(active.has(key)).toBe(false);
            active.add(key);
            most = Math.max(most, active.size);
            startedAt.set(key, clock.now());
            const { takes, fails } = fates.next().value as { takes: number; fails: boolean };
            await new Promise<void>((resolve) => clock.after(takes, resolve));
            active.delete(key);
            if (fails && failures < 5) throw new Error('no');
            return undefined;
          },
        });
        for (const { key, afterMs, low, pass } of steps) {
          queue.add(key, { afterMs, priority: low ? 'low' : 'normal' });
          wantedAt.set(key, clock.now());
          await clock.advance(pass);
        }
        await clock.advance(60_000);
        expect([queue.depth, queue.size]).toEqual([0, 0]);
        expect(most).toBeLessThanOrEqual(2);
        for (const [key, at] of wantedAt) expect(startedAt.get(key)).toBeGreaterThanOrEqual(at);
      }),
      { numRuns: 60 },
    );
  });
});
