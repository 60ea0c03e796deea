import { expect, test } from 'vitest';
import { makeClock } from '../_util.ts';
import { createReadiness } from './readiness.ts';

const outcomeOf = (waited: Promise<void> | undefined) => {
  const outcome = { text: 'waits' };
  waited?.then(
    () => {
      outcome.text = 'continues';
    },
    (error: Error) => {
      outcome.text = error.message;
    },
  );
  return outcome;
};

function start() {
  const clock = makeClock();
  const stores = [{ synced: true }, { synced: false }];
  return { clock, stores, readiness: createReadiness(stores, clock) };
}

test('a request waits while the stores are incomplete, and continues when they are complete', async () => {
  const { clock, stores, readiness } = start();
  const outcomes = [readiness.wait(), readiness.wait()].map(outcomeOf);
  await clock.advance(3_000);
  expect(outcomes).toEqual([{ text: 'waits' }, { text: 'waits' }]);
  expect(readiness.ready).toBe(false);
  stores[1] = { synced: true };
  await clock.advance(50);
  expect(outcomes).toEqual([{ text: 'continues' }, { text: 'continues' }]);
  expect(readiness.ready).toBe(true);
  expect(readiness.wait()).toBeUndefined();
});

test('a store that is listed again later does not delay requests', () => {
  const { stores, readiness } = start();
  stores[1] = { synced: true };
  expect(readiness.wait()).toBeUndefined();
  stores[1] = { synced: false };
  expect(readiness.wait()).toBeUndefined();
});

test('each request waits five seconds of its own, then gets CONTROLLER_NOT_READY', async () => {
  const { clock, readiness } = start();
  const first = outcomeOf(readiness.wait());
  await clock.advance(3_000);
  const second = outcomeOf(readiness.wait());
  await clock.advance(2_000);
  expect([first, second]).toEqual([{ text: 'the controller is still reading its state' }, { text: 'waits' }]);
  await clock.advance(3_000);
  expect(second).toEqual({ text: 'the controller is still reading its state' });
});

test('a replica that stops refuses all requests, also those that wait', async () => {
  const { clock, readiness } = start();
  const waits = outcomeOf(readiness.wait());
  readiness.drain();
  await clock.advance(50);
  expect(waits).toEqual({ text: 'this replica is stopping: ask again' });
  expect(() => readiness.wait()).toThrow('this replica is stopping: ask again');
  expect(readiness.ready).toBe(false);
});
