import { type AuthGroup, authGroupResource } from '../../../api/v3/auth-group.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { v3Name } from '../../../rules/names.ts';

export const authGroupKind = defineKind<AuthGroup>()({
  key: 'authGroups',
  definition: authGroupResource,
  noun: 'group',
  access: 'identity',
  withholdsTexts: true,
  rest: { tag: 'User administration', key: 'name', notFound: 'GROUP_NOT_FOUND' },
  indexes: {
    /** its name and its former ones */
    called: (group) => [v3Name(group), ...(group.spec.aliases ?? [])],
  },
});
