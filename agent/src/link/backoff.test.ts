import { expect, test } from 'vitest';
import { delayAfterLoss, delayAfterRefusal } from './backoff.ts';

const waits = (delay: typeof delayAfterLoss, random: number) =>
  Array.from({ length: 14 }, (_, i) => Math.round(delay(i + 1, () => random) / 100) / 10);

test('retries after a lost connection are frequent while the controller may be restarting, and then rare', () => {
  expect(waits(delayAfterLoss, 0.5)).toEqual([1, 1.5, 1.5, 1.5, 1.5, 1.5, 2.3, 3.4, 5.1, 7.6, 11.4, 17.1, 25.6, 30]);
});

test('retries after a refusal are rare from the start', () => {
  expect(waits(delayAfterRefusal, 0.5)).toEqual([20, 30, 45, 67.5, 101.3, 151.9, 227.8, ...Array(7).fill(300)]);
});

test('delays have jitter, so that agents do not retry at the same time', () => {
  expect([delayAfterLoss(3, () => 0), delayAfterLoss(3, () => 1)]).toEqual([750, 2250]);
});
