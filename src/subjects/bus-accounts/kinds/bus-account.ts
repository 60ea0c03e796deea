import { type BusAccount, busAccountResource } from '../../../api/v3/bus-account.ts';
import { defineKind } from '../../../kinds/definition.ts';
import { accountNameOf, accountRuleOf } from '../rules/account.ts';

export const busAccountKind = defineKind<BusAccount>()({
  key: 'busAccounts',
  definition: busAccountResource,
  noun: 'bus account',
  identity: { name: accountNameOf },
  access: 'workloads',
  isOfSystem: ({ spec }) => spec.system !== undefined,
  inUse: { status: 400, code: 'BUS_ACCOUNT_IN_USE' },
  rest: { tag: 'Message bus', key: 'name', notFound: 'BUS_ACCOUNT_NOT_FOUND' },
  indexes: {
    /** name of its BusAccountRule */
    rule: (account) => [accountRuleOf(account)],
    publicKey: ({ status }) => (status?.publicKey === undefined ? [] : [status.publicKey]),
    /** node whose leaf server it is for */
    node: ({ spec: { node } }) => (node === undefined ? [] : [node]),
  },
});
