import { expect, test } from 'vitest';
import { createPullSlots } from './pull-slots.ts';

const never = new AbortController().signal;
/** Whether a promise has settled after one turn of the event loop. */
async function settled(promise: Promise<unknown>): Promise<boolean> {
  let done = false;
  promise.then(
    () => {
      done = true;
    },
    () => {},
  );
  await new Promise((resolve) => setImmediate(resolve));
  return done;
}

test('a registry that does not answer delays no pull from another one', async () => {
  const slots = createPullSlots({ perRegistry: 2, overall: 6 });
  const hung = Array.from({ length: 5 }, (_, index) => slots.take(`dead.example:5000/a${index}`, never));
  expect(await settled(slots.take('alive.example/app', never))).toBe(true);
  expect(await settled(hung[1] as Promise<unknown>)).toBe(true);
  expect(await settled(hung[2] as Promise<unknown>)).toBe(false);
});

test('a released slot goes to the next pull from the same registry', async () => {
  const slots = createPullSlots({ perRegistry: 1, overall: 6 });
  const first = await slots.take('app:1', never);
  const second = slots.take('library/app:2', never);
  expect(await settled(second)).toBe(false);
  first[Symbol.dispose]();
  first[Symbol.dispose]();
  expect(await settled(second)).toBe(true);
  expect(await settled(slots.take('app:3', never))).toBe(false);
});

test('all pulls together stay within the overall limit', async () => {
  const slots = createPullSlots({ perRegistry: 2, overall: 3 });
  const taken = await Promise.all(['a.example/x', 'b.example/x', 'c.example/x'].map((one) => slots.take(one, never)));
  const fourth = slots.take('d.example/x', never);
  expect(await settled(fourth)).toBe(false);
  taken[0]?.[Symbol.dispose]();
  expect(await settled(fourth)).toBe(true);
});

test('a pull that is aborted leaves the queue', async () => {
  const slots = createPullSlots({ perRegistry: 1, overall: 1 });
  const first = await slots.take('a', never);
  const stop = new AbortController();
  const gone = slots.take('b', stop.signal);
  const last = slots.take('c', never);
  stop.abort(new Error('no longer wanted'));
  await expect(gone).rejects.toThrow('no longer wanted');
  first[Symbol.dispose]();
  expect(await settled(last)).toBe(true);
});
