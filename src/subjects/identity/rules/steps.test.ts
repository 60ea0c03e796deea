import { describe, expect, it } from 'vitest';
import type { Duties } from './duties.ts';
import { stepOf } from './steps.ts';

const NONE: Duties = { isExempt: false, mfaRequired: false, mfaEnabled: false, mustChangePassword: false };
const ALL: Duties = { isExempt: false, mfaRequired: true, mfaEnabled: false, mustChangePassword: true };
const user = { userUuid: 'u' };

describe('the next step', () => {
  it.each([
    // nobody has logged in yet
    [{}, undefined, 'login'],
    [{}, NONE, 'login'],
    [{ mfaVerified: true, passwordChanged: true }, ALL, 'login'],
    // the user has been deleted in between
    [user, undefined, 'login'],
    // nothing is owed
    [user, NONE, 'complete'],
    // a second factor is demanded and not enabled
    [user, { ...NONE, mfaRequired: true }, 'enroll'],
    [{ ...user, enrollmentStarted: true }, { ...NONE, mfaRequired: true }, 'confirm-enroll'],
    [{ ...user, enrollmentStarted: true, enrollmentConfirmed: true }, { ...NONE, mfaRequired: true }, 'complete'],
    // the enrolment comes before the password
    [user, ALL, 'enroll'],
    [{ ...user, enrollmentStarted: true }, ALL, 'confirm-enroll'],
    [
      { ...user, enrollmentStarted: true, enrollmentConfirmed: true, mfaVerified: true },
      { ...ALL, mfaEnabled: true },
      'change-password',
    ],
    // an enabled factor is asked for, demanded or not
    [user, { ...NONE, mfaEnabled: true }, 'mfa'],
    [user, { ...NONE, mfaEnabled: true, mfaRequired: true }, 'mfa'],
    [{ ...user, mfaVerified: true }, { ...NONE, mfaEnabled: true }, 'complete'],
    // the code does not stand for the password
    [user, { ...NONE, mfaEnabled: true, mustChangePassword: true }, 'mfa'],
    [{ ...user, mfaVerified: true }, { ...NONE, mfaEnabled: true, mustChangePassword: true }, 'change-password'],
    [
      { ...user, mfaVerified: true, passwordChanged: true },
      { ...NONE, mfaEnabled: true, mustChangePassword: true },
      'complete',
    ],
    [{ ...user, passwordChanged: true }, { ...NONE, mfaEnabled: true }, 'mfa'],
    // an exempt user owes a changed password at most
    [user, { ...ALL, isExempt: true }, 'change-password'],
    [user, { ...NONE, isExempt: true, mfaEnabled: true, mfaRequired: true }, 'complete'],
  ] as const)('after %j with the duties %j is %s', (progress, duties, step) => {
    expect(stepOf(progress, duties)).toBe(step);
  });

  it('is never complete while a duty is left, whatever has been done', () => {
    const flags = (names: readonly string[], bits: number) =>
      Object.fromEntries(names.map((name, bit) => [name, Boolean(bits & (1 << bit))]));
    const only = (all: Record<string, boolean>) => Object.fromEntries(Object.entries(all).filter(([, is]) => is));
    for (let done = 0; done < 16; done++) {
      for (let owed = 0; owed < 16; owed++) {
        const progress = only(
          flags(['mfaVerified', 'enrollmentStarted', 'enrollmentConfirmed', 'passwordChanged'], done),
        ) as { mfaVerified?: true; enrollmentConfirmed?: true; passwordChanged?: true };
        const duties = flags(['isExempt', 'mfaRequired', 'mfaEnabled', 'mustChangePassword'], owed) as never as Duties;
        const isComplete = stepOf({ ...user, ...progress }, duties) === 'complete';
        const isFree =
          (duties.isExempt ||
            (duties.mfaEnabled ? progress.mfaVerified : !duties.mfaRequired || progress.enrollmentConfirmed)) &&
          (!duties.mustChangePassword || progress.passwordChanged);
        expect([progress, duties, isComplete]).toEqual([progress, duties, Boolean(isFree)]);
      }
    }
  });
});
