import {
  type BusAccountRule,
  busAccountRuleResource,
  busAccountRuleSpecSchema,
} from '../../../api/v3/bus-account-rule.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { plainTranslation } from '../../../kinds/plain.ts';
import { RESERVED_ACCOUNT_RULES } from '../rules/reserved-rules.ts';
import { accountRuleBody } from '../rules/rule-aliases.ts';
import { accountRuleVerdict } from '../rules/rule-verdict.ts';
import { ruleCrud } from './rule.ts';

export const busAccountRuleCrud = ruleCrud<BusAccountRule>({
  path: '/bus/account-rules',
  part: 'busAccountRule',
  resource: busAccountRuleResource,
  schema: busAccountRuleSpecSchema,
  translation: plainTranslation<BusAccountRule>(busAccountRuleSpecSchema, { closed: true }),
  reserved: RESERVED_ACCOUNT_RULES,
  spelled: accountRuleBody,
});

export const busAccountRuleKind = defineKind<BusAccountRule>()({
  key: 'busAccountRules',
  definition: busAccountRuleResource,
  noun: 'bus account rule',
  builtIns: RESERVED_ACCOUNT_RULES,
  access: 'workloads',
  verdict: ({ spec }) => accountRuleVerdict(spec),
  rest: {
    tag: 'Message bus',
    key: 'name',
    notFound: 'BUS_ACCOUNT_RULE_NOT_FOUND',
    crud: busAccountRuleCrud,
  },
  indexes: {
    /** public keys of the accounts that it imports from */
    exporter: ({ spec: { imports = [] } }) => imports.map(({ account }) => account),
  },
});
