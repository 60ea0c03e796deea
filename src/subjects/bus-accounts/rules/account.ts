import type { BusAccount } from '../../../api/v3/bus-account.ts';
import { SYSTEM_ACCOUNT } from '../../../rules/bus-accounts.ts';

/** The account of the leaf server of a node. */
export const leafAccountName = (node: string): string => `${SYSTEM_ACCOUNT}-leaf-${node}`;

const DEFAULT_RULES = {
  system: 'default-system-account',
  leaf: 'default-system-account',
  controller: 'controller-account',
} as const;
const DEFAULT_ACCOUNT_RULE = 'default-account';

/** Name of an account: the name of its application, or its own. */
export const accountNameOf = ({
  metadata,
  spec: { application, name },
}: Pick<BusAccount, 'metadata' | 'spec'>): string => application ?? name ?? metadata.name;

/** Rule of an account where the rule that it names does not exist. */
export const defaultAccountRuleOf = ({ spec: { system } }: Pick<BusAccount, 'spec'>): string =>
  system ? DEFAULT_RULES[system] : DEFAULT_ACCOUNT_RULE;

/** Name of the rule that an account asks for. */
export const accountRuleOf = (account: Pick<BusAccount, 'spec'>): string =>
  account.spec.rule ?? defaultAccountRuleOf(account);
