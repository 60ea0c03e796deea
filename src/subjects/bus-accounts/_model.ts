/**
 * What the servers of the bus are to allow, worked out of what was asked alone: who exists, and what rules say. Pure, and without code
 * of the product.
 */

/** Subjects that clients use; the rules of tests name these patterns. */
export const SUBJECTS = { 'orders.>': 'orders.1', 'stock.>': 'stock.1' } as const;
type Pattern = keyof typeof SUBJECTS;
export const PATTERNS = Object.keys(SUBJECTS) as Pattern[];

export interface ModelUserRule {
  pubDeny?: Pattern[];
  subDeny?: Pattern[];
  pubAllow?: Pattern[];
}
export interface ModelAccountRule extends ModelUserRule {
  /** without streams */
  isStoreless?: true;
}

interface Service {
  hasAccess: boolean;
  rule?: string;
  node: number;
}
interface ModelApplication {
  hasAccess: boolean;
  rule?: string;
  services: Map<string, Service>;
  /** further users, by name */
  extras: Map<string, ModelExtra>;
  /** an account was asked for over REST while the application asked for none: it stays until the application asks and asks no more */
  asked?: { rule?: string };
}
interface ModelExtra {
  rule?: string;
  /** a user of MQTT */
  isBearer?: true;
}

export interface ModelState {
  accountRules: Map<string, ModelAccountRule>;
  userRules: Map<string, ModelUserRule>;
  applications: Map<string, ModelApplication>;
}

/** A user that clients may connect as. */
export interface ModelUser {
  account: string;
  name: string;
  publishes: (pattern: Pattern) => boolean;
  subscribes: (pattern: Pattern) => boolean;
  hasStreams: boolean;
  /** what its token says: another one needs other credentials */
  grant: string;
}

export const emptyState = (): ModelState => ({
  accountRules: new Map(),
  userRules: new Map(),
  applications: new Map(),
});

export const hasAccount = ({ hasAccess, asked }: Pick<ModelApplication, 'hasAccess' | 'asked'>): boolean =>
  hasAccess || asked !== undefined;

/** The rule of the account of an application. */
export const accountRuleOf = (
  { accountRules }: ModelState,
  { hasAccess, rule, asked }: ModelApplication,
): ModelAccountRule => accountRules.get((hasAccess ? rule : asked?.rule) ?? '') ?? {};

/** All users of applications with an account, by `account/user`. A rule that does not exist limits as the built-in one: not at all. */
export function usersOf(state: ModelState): Map<string, ModelUser> {
  const users = new Map<string, ModelUser>();
  for (const [account, application] of state.applications) {
    if (!hasAccount(application)) continue;
    const { hasAccess, services, extras } = application;
    const ofAccount = accountRuleOf(state, application);
    const wanted: ({ name: string } & ModelExtra)[] = [
      ...[...services].flatMap(([name, one]) =>
        hasAccess && one.hasAccess ? [{ name, ...(one.rule !== undefined && { rule: one.rule }) }] : [],
      ),
      ...[...extras].map(([name, one]) => ({ name, ...one })),
    ];
    for (const user of wanted) {
      const own = state.userRules.get(user.rule ?? '');
      // Permissions of a user stand in the place of all permissions of its account.
      const limits = own && Object.keys(own).length > 0 ? own : ofAccount;
      const { pubAllow, pubDeny = [], subDeny = [] } = limits;
      users.set(`${account}/${user.name}`, {
        ...{ account, name: user.name },
        publishes: (pattern) => !pubDeny.includes(pattern) && (pubAllow?.includes(pattern) ?? true),
        subscribes: (pattern) => !subDeny.includes(pattern),
        // No list of allowed subjects here names the subjects of streams.
        hasStreams: !ofAccount.isStoreless && pubAllow === undefined,
        grant: own ? JSON.stringify(own) : user.isBearer ? 'built-in of MQTT' : 'built-in',
      });
    }
  }
  return users;
}

/** Nodes with a microservice of the application that has access. */
export const nodesOf = ({ applications }: ModelState, account: string): number[] => {
  const application = applications.get(account);
  if (!application?.hasAccess) return [];
  return [...new Set([...application.services.values()].filter((one) => one.hasAccess).map(({ node }) => node))].sort();
};
