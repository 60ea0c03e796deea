import type { LoginPolicy } from './policy.ts';

/** The failed attempts of an account. `lockedUntil`: Unix ms. */
export interface Attempts {
  failed: number;
  lockedUntil: number;
}

/**
 * Takes one of the attempts of an account before the password is compared, so that guesses at the same time are counted as well.
 * Undefined: the account is locked. The attempt that takes the last place locks; success unlocks. The end of a lock begins anew.
 */
export function reserved(
  { failed, lockedUntil }: Attempts,
  now: number,
  policy: Pick<LoginPolicy, 'maxFailedAttempts' | 'lockoutDurationMinutes'>,
): Attempts | undefined {
  if (lockedUntil > now) return undefined;
  const before = lockedUntil > 0 ? 0 : failed;
  const taken = before + 1;
  return {
    failed: taken,
    lockedUntil: taken >= policy.maxFailedAttempts ? now + policy.lockoutDurationMinutes * 60_000 : 0,
  };
}

/** The attempts without the last, which was right. It may have locked: the account has a place again. */
export const givenBack = ({ failed }: Attempts): Attempts => ({ failed: Math.max(0, failed - 1), lockedUntil: 0 });
