/** What the steps of an interaction have done so far. */
interface Progress {
  userUuid?: string;
  mfaVerified?: true;
  enrollmentStarted?: true;
  enrollmentConfirmed?: true;
  passwordChanged?: true;
}

/** What a user owes before a login is complete. */
export interface LoginDuties {
  /** the second factor is neither asked of the user nor demanded */
  isExempt: boolean;
  /** a group of the user demands a second factor */
  mfaRequired: boolean;
  mfaEnabled: boolean;
  mustChangePassword: boolean;
}

const mustEnroll = ({ enrollmentConfirmed }: Progress, { isExempt, mfaRequired, mfaEnabled }: LoginDuties) =>
  !isExempt && mfaRequired && !mfaEnabled && !enrollmentConfirmed;

/** The first step whose condition holds is the next one. */
const STEPS = [
  ['login', ({ userUuid }) => userUuid === undefined],
  ['enroll', (progress, duties) => mustEnroll(progress, duties) && !progress.enrollmentStarted],
  ['confirm-enroll', mustEnroll],
  ['mfa', ({ mfaVerified }, { isExempt, mfaEnabled }) => !isExempt && mfaEnabled && !mfaVerified],
  ['change-password', ({ passwordChanged }, { mustChangePassword }) => mustChangePassword && !passwordChanged],
  ['complete', () => true],
] as const satisfies readonly (readonly [string, (progress: Progress, duties: LoginDuties) => boolean])[];

/** The next step of an interaction (docs/spec/identity-and-access.md); without a user it is the login. */
export function stepOf(progress: Progress, duties: LoginDuties | undefined): (typeof STEPS)[number][0] {
  if (!duties) return 'login';
  return STEPS.find(([, applies]) => applies(progress, duties))?.[0] ?? 'complete';
}
