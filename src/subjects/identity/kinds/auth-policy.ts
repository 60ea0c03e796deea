import { type AuthPolicy, authPolicyResource } from '../../../api/v3/auth-policy.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { authPolicyVerdict } from '../rules/policy.ts';

export const authPolicyKind = defineKind<AuthPolicy>()({
  key: 'authPolicies',
  definition: authPolicyResource,
  noun: 'policy of logins',
  access: 'identity',
  verdict: authPolicyVerdict,
  rest: { tag: 'User administration', key: 'name', notFound: 'NOT_FOUND' },
  indexes: {},
});
