import { expect, test } from 'vitest';
import { makeClock } from '../_util.ts';
import { createReadiness } from './readiness.ts';

const outcomeOf = (waited: Promise<void> | undefined) => {
  const outcome = { text: 'waits' };
  waited?.then(
    () => {
      outcome.text = 'may answer';
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

test('who comes while a replica reads its state waits, and is answered as soon as it has read all', async () => {
  const { clock, stores, readiness } = start();
  const outcomes = [readiness.wait(), readiness.wait()].map(outcomeOf);
  await clock.advance(3_000);
  expect(outcomes).toEqual([{ text: 'waits' }, { text: 'waits' }]);
  expect(readiness.ready).toBe(false);
  stores[1] = { synced: true };
  await clock.advance(50);
  expect(outcomes).toEqual([{ text: 'may answer' }, { text: 'may answer' }]);
  expect(readiness.ready).toBe(true);
  expect(readiness.wait()).toBeUndefined();
});

test('a store that loses its place later keeps nobody waiting', () => {
  const { stores, readiness } = start();
  stores[1] = { synced: true };
  expect(readiness.wait()).toBeUndefined();
  stores[1] = { synced: false };
  expect(readiness.wait()).toBeUndefined();
});

test('who has waited long is told to come again, each after a time of his own', async () => {
  const { clock, readiness } = start();
  const first = outcomeOf(readiness.wait());
  await clock.advance(3_000);
  const second = outcomeOf(readiness.wait());
  await clock.advance(2_000);
  expect([first, second]).toEqual([{ text: 'the controller is still reading its state' }, { text: 'waits' }]);
  await clock.advance(3_000);
  expect(second).toEqual({ text: 'the controller is still reading its state' });
});

test('a replica that stops sends everybody away, those who wait too', async () => {
  const { clock, readiness } = start();
  const waits = outcomeOf(readiness.wait());
  readiness.drain();
  await clock.advance(50);
  expect(waits).toEqual({ text: 'this replica is stopping: ask again' });
  expect(() => readiness.wait()).toThrow('this replica is stopping: ask again');
  expect(readiness.ready).toBe(false);
});
