import type { BusAccount } from '../../../api/v3/bus-account.ts';

/** The accounts of the system by what they are for. */
export const SYSTEM_ACCOUNT = 'SYS';
export const CONTROLLER_ACCOUNT_OF_BUS = 'controller';
export const leafAccountName = (node: string): string => `${SYSTEM_ACCOUNT}-leaf-${node}`;

/** Names of accounts that no application may have: an application has the account of its name. */
export const TAKEN_ACCOUNT_NAMES: readonly string[] = [SYSTEM_ACCOUNT, CONTROLLER_ACCOUNT_OF_BUS];

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
