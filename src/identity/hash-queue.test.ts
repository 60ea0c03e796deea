import { expect, test } from 'vitest';
import { createHashQueue } from './hash-queue.ts';

/** Work that ends when the test says so. */
function work() {
  const ends: (() => void)[] = [];
  let most = 0;
  let running = 0;
  return {
    one: async () => {
      running++;
      most = Math.max(most, running);
      await new Promise<void>((resolve) => ends.push(resolve));
      running--;
    },
    /** Ends all work, also what begins by that. */
    async endAll() {
      while (ends.length > 0) {
        ends.shift()?.();
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
    get begun() {
      return ends.length;
    },
    get most() {
      return most;
    },
  };
}
const never = new AbortController().signal;
const settled = () => new Promise((resolve) => setImmediate(resolve));

test('hashes are computed two at once, the others wait in a queue, and beyond its end they are 429', async () => {
  const hashes = work();
  const depths: number[] = [];
  const queue = createHashQueue({ parallel: 2, waiting: 3, depth: (count) => depths.push(count) });
  const all = Array.from({ length: 8 }, () =>
    queue.run(hashes.one, never).then(
      () => 'done',
      (error) => error.status,
    ),
  );
  await settled();
  expect(hashes.begun).toBe(2);
  await hashes.endAll();
  expect(hashes.most).toBe(2);
  expect((await Promise.all(all)).sort()).toEqual([429, 429, 429, 'done', 'done', 'done', 'done', 'done']);
  expect([Math.max(...depths), depths.at(-1)]).toEqual([3, 0]);
});

test('a caller that disconnects leaves the queue, and its place is free', async () => {
  const { one, endAll } = work();
  const queue = createHashQueue({ parallel: 1, waiting: 1 });
  const first = queue.run(one, never);
  const client = new AbortController();
  const waiting = queue.run(one, client.signal);
  client.abort(new Error('disconnected'));
  await expect(waiting).rejects.toThrow('disconnected');
  const next = queue.run(one, never);
  await endAll();
  await Promise.all([first, next]);
});

test('work that fails gives its turn to the next', async () => {
  const queue = createHashQueue({ parallel: 1, waiting: 1 });
  const failing = queue.run(() => Promise.reject(new Error('no memory')), never);
  const next = queue.run(async () => 'done', never);
  await expect(failing).rejects.toThrow('no memory');
  expect(await next).toBe('done');
});
