import { expect, test } from 'vitest';
import { walkOfPairs } from './targets.ts';

test('a walk of pairs has each ordered pair of targets once, each target after itself included', () => {
  const names = ['up', 'check', 'release', 'clean'];
  const walk = walkOfPairs(names);
  const pairs = walk.slice(1).map((name, i) => `${walk[i]} ${name}`);
  expect(pairs).toHaveLength(names.length ** 2);
  expect(new Set(pairs).size).toBe(names.length ** 2);
});
