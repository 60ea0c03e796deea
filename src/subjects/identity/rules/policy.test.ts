import { expect, test } from 'vitest';
import type { AuthPolicy } from '../../../api/v3/auth-policy.ts';
import { authPolicyVerdict, loginPolicy } from './policy.ts';

const policy = (spec: AuthPolicy['spec'], name = 'default'): AuthPolicy => ({
  apiVersion: 'skerry.dev/v3',
  kind: 'AuthPolicy',
  metadata: { name },
  spec,
});

test('the object wins over the environment, which wins over the defaults', () => {
  const environment = { accessTokenTtlSeconds: 120, refreshTokenTtlSeconds: 600 };
  expect(loginPolicy(undefined)).toMatchObject({ accessTokenTtlSeconds: 900, refreshTokenTtlSeconds: 3600 });
  expect(loginPolicy(policy({ accessTokenTtlSeconds: 60 }), environment)).toMatchObject({
    accessTokenTtlSeconds: 60,
    refreshTokenTtlSeconds: 600,
    maxFailedAttempts: 5,
  });
});

test('a refresh token is valid as long as an access token at least', () => {
  expect(loginPolicy(policy({ accessTokenTtlSeconds: 3600, refreshTokenTtlSeconds: 300 })).refreshTokenTtlSeconds).toBe(
    3600,
  );
});

test('a policy of another name is not used', () => {
  expect(authPolicyVerdict(policy({}))).toBeUndefined();
  expect(authPolicyVerdict(policy({}, 'strict'))).toMatchObject({ reason: 'NotUsed' });
});
