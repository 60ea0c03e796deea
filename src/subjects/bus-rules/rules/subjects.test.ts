import { describe, expect, test } from 'vitest';
import { hasWildcards, isWithin, localSubject, overlapOf, renamingError } from './subjects.ts';

test.each([
  ['a.b', false],
  ['a.*', true],
  ['*', true],
  ['>', true],
  ['a.>', true],
  ['a*.b', false],
])('%s has wildcards: %s', (subject, expected) => {
  expect(hasWildcards(subject)).toBe(expected);
});

test.each([
  ['a.b', 'a.b', true],
  ['a.b', 'a.*', true],
  ['a.b.c', 'a.*', false],
  ['a.b.c', 'a.>', true],
  ['a', 'a.>', false],
  ['a.*', 'a.b', false],
  ['a.>', '>', true],
  ['>', 'a.>', false],
  ['a.*.c', '*.*.c', true],
])('%s is within %s: %s', (subject, other, expected) => {
  expect(isWithin(subject, other)).toBe(expected);
});

describe('the first overlap', () => {
  test.each([
    [['a', 'b'], undefined],
    [
      ['a.b', 'c', 'a.*'],
      ['a.b', 'a.*'],
    ],
    [
      ['>', 'c'],
      ['>', 'c'],
    ],
  ])('in %j is %j', (subjects, expected) => {
    expect(overlapOf(subjects)).toEqual(expected);
  });
});

describe('a subject in the importing account', () => {
  test.each([
    ['a.b', 'c'],
    ['a.*', 'c.*'],
    ['a.*', 'c.$1'],
    ['a.*.*', 'c.$2.x.$1'],
    ['a.>', 'c.>'],
    ['a.*.>', '$1.c.>'],
  ])('%s may be %s', (subject, local) => {
    expect(renamingError(subject, local)).toBeUndefined();
  });
  test.each([
    ['a.>', 'c', 'must end in ">" exactly where the subject "a.>" does'],
    ['a', 'c.>', 'must end in ">" exactly where the subject "a" does'],
    ['a.*', 'c', 'must have each of the 1 "*"'],
    ['a.*', 'c.$2', 'names $2, and the subject "a.*" has 1 "*"'],
    ['a.*', 'c.$0', 'names $0'],
    ['a.*', 'c.*.*', 'must have each of the 1 "*"'],
  ])('%s cannot be %s', (subject, local, problem) => {
    expect(renamingError(subject, local)).toContain(problem);
  });
  test('has wildcards in place of its references', () => {
    expect([localSubject('a.*'), localSubject('a.*', 'b.$1.c')]).toEqual(['a.*', 'b.*.c']);
  });
});
