import { expect, test } from 'vitest';
import { type Attempts, givenBack, reserved } from './attempts.ts';

const POLICY = { maxFailedAttempts: 5, lockoutDurationMinutes: 15 };
const LOCK = 15 * 60_000;

test('the fifth attempt locks the account, and the end of the lock begins anew', () => {
  let attempts: Attempts = { failed: 0, lockedUntil: 0 };
  const failed: number[] = [];
  for (let i = 0; i < 5; i++) {
    attempts = reserved(attempts, 1_000, POLICY) as Attempts;
    failed.push(attempts.failed);
  }
  expect(failed).toEqual([1, 2, 3, 4, 5]);
  expect(attempts.lockedUntil).toBe(1_000 + LOCK);
  expect(reserved(attempts, 1_000 + LOCK - 1, POLICY)).toBeUndefined();
  expect(reserved(attempts, 1_000 + LOCK, POLICY)).toEqual({ failed: 1, lockedUntil: 0 });
});

test('an attempt that was right is given back, and no other', () => {
  expect(givenBack({ failed: 5, lockedUntil: 9 })).toEqual({ failed: 4, lockedUntil: 0 });
  expect(givenBack({ failed: 0, lockedUntil: 0 })).toEqual({ failed: 0, lockedUntil: 0 });
});
