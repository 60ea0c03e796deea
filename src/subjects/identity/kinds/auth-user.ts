import { type AuthUser, authUserResource } from '../../../api/v3/auth-user.ts';
import { defineKind } from '../../../kinds/definition.ts';

export const authUserKind = defineKind<AuthUser>()({
  key: 'authUsers',
  definition: authUserResource,
  noun: 'user',
  identity: { name: ({ spec }) => spec.email },
  recordsName: true,
  access: 'identity',
  withholdsTexts: true,
  rest: { tag: 'User administration', key: 'uuid', notFound: 'USER_NOT_FOUND' },
  indexes: {
    /** names of its groups, as the user has them: the present name, or a former one */
    group: ({ spec }) => spec.groups ?? [],
  },
});
