import type { Finding } from '../../../rules/conditions.ts';
import { type Duties, mustEnroll } from './duties.ts';

/** What decides whether a user may log in. */
export interface LoginMeans {
  duties: Duties;
  hasPassword: boolean;
  isLocked: boolean;
}

/** The condition MayLogIn of a user. Nothing secret decides it, and no message has a time or a number. */
export function mayLogIn({ duties, hasPassword, isLocked }: LoginMeans): Finding {
  if (!hasPassword)
    return no('PasswordMissing', 'the user has no password: POST /api/v3/users/{id}/reset-password gives it one');
  if (isLocked) return no('Locked', 'too many attempts failed: the account is locked for the time of the policy');
  if (mustEnroll(duties))
    return no('MfaEnrollmentRequired', 'a group of the user asks for a second factor, which it has not enrolled');
  if (duties.mustChangePassword)
    return no('PasswordChangeRequired', 'the user logs in and has to change its password first');
  return { status: 'True', reason: 'LoginPermitted', message: 'the user may log in' };
}

const no = (reason: Finding['reason'], message: string): Finding => ({ status: 'False', reason, message });
