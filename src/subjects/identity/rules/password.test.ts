import { randomInt } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { isTooLong, passwordProblems, temporaryPassword } from './password.ts';

const POLICY = { minPasswordLength: 12 };

describe('a password', () => {
  test.each(['Correct-Horse-7', 'Aa1aaaaaaaaa', `Aa1${'x'.repeat(125)}`, 'Ünïcödé12345'])(
    '%s is accepted',
    (password) => {
      expect(passwordProblems(password, POLICY)).toEqual([]);
    },
  );

  test('names every rule that it violates', () => {
    expect(passwordProblems('-----', POLICY)).toEqual([
      'the password needs at least 12 characters, and has 5',
      'the password needs an upper-case letter',
      'the password needs a lower-case letter',
      'the password needs a digit',
    ]);
  });

  test('has at most 128 characters, whatever their bytes', () => {
    expect(passwordProblems(`Aa1${'x'.repeat(126)}`, POLICY)).toEqual([
      'the password has at most 128 characters, not 129',
    ]);
    expect(isTooLong('x'.repeat(2 ** 20))).toBe(true);
    expect(isTooLong('😀'.repeat(128))).toBe(false);
    expect(isTooLong('😀'.repeat(129))).toBe(true);
  });
});

test('a temporary password satisfies the rules, and has no characters that look alike', () => {
  const made = Array.from({ length: 200 }, () => temporaryPassword(POLICY, (below) => randomInt(below)));
  expect(made.flatMap((password) => passwordProblems(password, POLICY))).toEqual([]);
  expect(made.filter((password) => /[IOl01]/.test(password))).toEqual([]);
  expect(new Set(made).size).toBe(200);
  expect(temporaryPassword({ minPasswordLength: 20 }, () => 0)).toHaveLength(20);
});
