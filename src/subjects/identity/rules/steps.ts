import { type Duties, mustEnroll, mustShowCode } from './duties.ts';

/** What the steps of an interaction have done so far. */
interface Progress {
  userUuid?: string;
  mfaVerified?: true;
  enrollmentStarted?: true;
  enrollmentConfirmed?: true;
  passwordChanged?: true;
}

const owesFactor = ({ enrollmentConfirmed }: Progress, duties: Duties) => mustEnroll(duties) && !enrollmentConfirmed;

/** The first step whose condition holds is the next one. */
const STEPS = [
  ['login', ({ userUuid }) => userUuid === undefined],
  ['enroll', (progress, duties) => owesFactor(progress, duties) && !progress.enrollmentStarted],
  ['confirm-enroll', owesFactor],
  ['mfa', ({ mfaVerified }, duties) => mustShowCode(duties) && !mfaVerified],
  ['change-password', ({ passwordChanged }, { mustChangePassword }) => mustChangePassword && !passwordChanged],
  ['complete', () => true],
] as const satisfies readonly (readonly [string, (progress: Progress, duties: Duties) => boolean])[];

/** The next step of an interaction (docs/spec/identity-and-access.md); without a user it is the login. */
export function stepOf(progress: Progress, duties: Duties | undefined): (typeof STEPS)[number][0] {
  if (!duties) return 'login';
  return STEPS.find(([, applies]) => applies(progress, duties))?.[0] ?? 'complete';
}
