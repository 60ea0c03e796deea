import type { AuthPolicy } from '../../../api/v3/auth-policy.ts';
import type { Verdict } from '../../../rules/verdict.ts';

/** Name of the only AuthPolicy that counts. */
export const AUTH_POLICY = 'default';

/** Rules of passwords and logins (docs/resources/users.md#the-policy). */
export interface LoginPolicy {
  minPasswordLength: number;
  passwordHistoryCount: number;
  maxFailedAttempts: number;
  lockoutDurationMinutes: number;
  accessTokenTtlSeconds: number;
  refreshTokenTtlSeconds: number;
  refreshRotation: boolean;
  familyMaxAgeHours: number;
  maxConcurrentSessions: number;
  bootstrapExemptFromMfa: boolean;
}

const DEFAULTS: LoginPolicy = {
  minPasswordLength: 12,
  passwordHistoryCount: 5,
  maxFailedAttempts: 5,
  lockoutDurationMinutes: 15,
  accessTokenTtlSeconds: 900,
  refreshTokenTtlSeconds: 3600,
  refreshRotation: true,
  familyMaxAgeHours: 12,
  maxConcurrentSessions: 10,
  bootstrapExemptFromMfa: true,
};

/** The policy in force: the environment counts where the object says nothing. */
export function loginPolicy(
  policy: AuthPolicy | undefined,
  environment: Pick<Partial<LoginPolicy>, 'accessTokenTtlSeconds' | 'refreshTokenTtlSeconds'> = {},
): LoginPolicy {
  const { uuid: _, ...spec } = policy?.spec ?? {};
  const given = Object.fromEntries(
    Object.entries({ ...environment, ...spec }).filter(([, value]) => value !== undefined),
  );
  const merged = { ...DEFAULTS, ...given };
  return { ...merged, refreshTokenTtlSeconds: Math.max(merged.refreshTokenTtlSeconds, merged.accessTokenTtlSeconds) };
}

export const authPolicyVerdict = ({ metadata: { name } }: AuthPolicy): Verdict | undefined =>
  name === AUTH_POLICY
    ? undefined
    : {
        reason: 'NotUsed',
        status: 400,
        code: 'VALIDATION_ERROR',
        field: 'name',
        message: `the policy of an installation is the object ${AUTH_POLICY}: delete this one`,
      };
