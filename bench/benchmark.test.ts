import { expect, test } from 'vitest';
import { type Budget, by, keeps } from './benchmark.ts';

test.each<[string, number, Budget, boolean]>([
  ['the limit itself is kept', 5, { atMost: 5 }, true],
  ['more than at most is a miss', 5.01, { atMost: 5 }, false],
  ['less than at least is a miss', 199, { atLeast: 200 }, false],
  ['exactly is exact', 2, { exactly: 1 }, false],
  ['nothing measured keeps nothing', Number.NaN, { atMost: 5 }, false],
])('%s', (_sentence, value, budget, want) => {
  expect(keeps(value, budget)).toBe(want);
});

test('the length of a run selects its size', () => {
  expect(by({ length: 'long' }, { short: 1, usual: 2, long: 3 })).toBe(3);
});
