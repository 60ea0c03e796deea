import { type BusUserRule, busUserRuleResource, busUserRuleSpecSchema } from '../../../api/v3/bus-user-rule.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { RESERVED_USER_RULES } from '../rules/reserved-rules.ts';
import { userRuleBody } from '../rules/rule-aliases.ts';
import { userRuleVerdict } from '../rules/rule-verdict.ts';
import { ruleCrud } from './rule.ts';

export const busUserRuleKind = defineKind<BusUserRule>()({
  key: 'busUserRules',
  definition: busUserRuleResource,
  noun: 'bus user rule',
  builtIns: RESERVED_USER_RULES,
  access: 'workloads',
  verdict: ({ spec }) => userRuleVerdict(spec),
  rest: {
    tag: 'Message bus',
    key: 'name',
    notFound: 'BUS_USER_RULE_NOT_FOUND',
    crud: ruleCrud<BusUserRule>({
      path: '/bus/user-rules',
      part: 'busUserRule',
      resource: busUserRuleResource,
      schema: busUserRuleSpecSchema,
      translation: plainTranslation<BusUserRule>(busUserRuleSpecSchema, { closed: true }),
      reserved: RESERVED_USER_RULES,
      spelled: userRuleBody,
    }),
  },
  indexes: {},
});
