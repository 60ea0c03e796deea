import { expect, test } from 'vitest';
import { delayAfterLoss, delayAfterRefusal } from './backoff.ts';

const waits = (delay: typeof delayAfterLoss, random: number) =>
  Array.from({ length: 14 }, (_, i) => Math.round(delay(i + 1, () => random) / 100) / 10);

test('who finds nobody comes back soon while a controller may be restarting, and then seldom', () => {
  expect(waits(delayAfterLoss, 0.5)).toEqual([1, 1.5, 1.5, 1.5, 1.5, 1.5, 2.3, 3.4, 5.1, 7.6, 11.4, 17.1, 25.6, 30]);
});

test('who is refused asks seldom from the start', () => {
  expect(waits(delayAfterRefusal, 0.5)).toEqual([20, 30, 45, 67.5, 101.3, 151.9, 227.8, ...Array(7).fill(300)]);
});

test('nobody waits for the same time as the others', () => {
  expect([delayAfterLoss(3, () => 0), delayAfterLoss(3, () => 1)]).toEqual([750, 2250]);
});
