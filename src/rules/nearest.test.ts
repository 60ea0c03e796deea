import { expect, test } from 'vitest';
import { nearestOf } from './nearest.ts';

test.each([
  ['contaner', 'container'],
  ['Env', 'env'],
  ['prt', 'port'],
  ['a', undefined],
  ['unrelated', undefined],
  ['e'.repeat(1_000_000), undefined],
])('%.20s is nearest to %s', (name, nearest) => {
  expect(nearestOf(name, ['container', 'env', 'port', 'id'])).toBe(nearest);
});
