import type { LoginContext } from './login-context.ts';

export type InteractionStep = 'login' | 'mfa' | 'enroll' | 'confirm-enroll' | 'change-password' | 'complete';

/** What has been shown in an interaction. `foreign`: a client without its cookie took a step. */
export interface InteractionState {
  userUuid?: string;
  /** which password the user showed, by the time when it was set (Unix ms) */
  passwordAt?: number;
  mfaVerified?: true;
  enrollmentStarted?: true;
  enrollmentConfirmed?: true;
  passwordChanged?: true;
  foreign?: true;
  /** no step is taken any more */
  completed?: true;
}

export type InteractionAction =
  | { to: 'login'; email: string; password: string }
  | { to: 'mfa'; code: string }
  | { to: 'enroll' }
  | { to: 'confirm-enroll'; code: string }
  | { to: 'change-password'; currentPassword?: string; newPassword: string }
  | { to: 'complete' };

export interface Interactions {
  status(uid: string, signal: AbortSignal): Promise<{ step: InteractionStep }>;
  /** `browser`: the header `Cookie` of the request. */
  act(
    uid: string,
    browser: string | undefined,
    action: InteractionAction,
    by: LoginContext,
    signal: AbortSignal,
  ): Promise<{
    step: InteractionStep;
    secret?: string;
    otpauthUrl?: string;
    recoveryCodes?: string[];
    redirectTo?: string;
    /** of the browser that has logged in: the value by which it is known from then on */
    device?: string;
  }>;
}
