import { AGENT_GROUP } from '../../../api/names.ts';
import type { Application, MicroserviceEntry, ServiceAccount } from '../../../api/v3/index.ts';
import type { Find } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import type { Verdict } from '../../../rules/verdict.ts';
import type { RoleRule, ServiceAccountView } from '../../../wire/agent.ts';

/** The role of a microservice that names none. */
const DEFAULT_ROLE = 'microservice';
const AGENT_API = [`${AGENT_GROUP}/v1`];
/** The spellings of its API group that an agent knows. */
const AGENT_GROUPS: readonly string[] = [...AGENT_API, AGENT_GROUP, '*'];

/**
 * The roles that every installation has, with what they permit in the local API of an agent. Those of users permit nothing
 * there.
 */
export const SYSTEM_ROLE_RULES: Readonly<Record<string, readonly RoleRule[]>> = {
  admin: [],
  sre: [],
  developer: [],
  viewer: [],
  'agent-admin': [{ apiGroups: AGENT_API, resources: ['*'], verbs: ['*'] }],
  [DEFAULT_ROLE]: [
    {
      apiGroups: AGENT_API,
      resources: ['microservices/config/self', 'auth/whoami', 'system/gps', 'microservices/control/self'],
      verbs: ['get'],
    },
  ],
};

type RoleRef = ServiceAccount['spec']['roleRef'];

/** Roles that everyone gives to a microservice: the role of every microservice, and the roles of users, which permit nothing at an agent. */
export const FREE_ROLES: readonly string[] = Object.entries(SYSTEM_ROLE_RULES).flatMap(([name, rules]) =>
  rules.length === 0 || name === DEFAULT_ROLE ? [name] : [],
);

/** The other roles of the system. Only who may bind a role gives it to a microservice, and the same is true of all roles that users make. */
export const BOUND_ROLES: readonly string[] = Object.keys(SYSTEM_ROLE_RULES).filter(
  (name) => !FREE_ROLES.includes(name),
);

/** The roles, besides free ones, that entries have after a write and did not have before, by the names of the entries. */
export function newlyBound(
  after: readonly MicroserviceEntry[] = [],
  before: readonly MicroserviceEntry[] = [],
): { entry: string; role: string }[] {
  const had = new Map(before.map(({ name, serviceAccount }) => [name, serviceAccount?.roleRef.name]));
  return after.flatMap(({ name, serviceAccount }) => {
    const role = serviceAccount?.roleRef.name;
    return role !== undefined && !FREE_ROLES.includes(role) && had.get(name) !== role ? [{ entry: name, role }] : [];
  });
}

/** Two applications may have accounts of the same name. */
export const serviceAccountName = (account: {
  metadata: { name: string };
  spec: { name?: string; applicationName: string };
}) => `${account.spec.applicationName}/${v3Name(account)}`;

/** Why a role cannot be used; `isMade`: whether users have made a role of this name. */
export function roleVerdict(
  { kind = 'Role', name }: RoleRef,
  field: string,
  isMade: (name: string) => boolean,
): Verdict | undefined {
  if (kind === 'Role' && (Object.hasOwn(SYSTEM_ROLE_RULES, name) || isMade(name))) return undefined;
  return {
    reason: 'RoleNotFound',
    status: 400,
    code: 'ROLE_NOT_FOUND',
    field,
    message: `there is no ${kind === 'Role' ? 'role' : kind} ${JSON.stringify(name)}; the roles are ${Object.keys(SYSTEM_ROLE_RULES).join(', ')} and those that users make`,
  };
}

/** The most rules that an agent reads of one role. */
const MOST_RULES = 256;

/** What a role permits in the local API of an agent. */
function rulesAtAgent(name: string, find: Find): RoleRule[] {
  const own = Object.hasOwn(SYSTEM_ROLE_RULES, name) ? SYSTEM_ROLE_RULES[name] : undefined;
  if (own) return [...own];
  const rules = find('roles', name)?.rules ?? [];
  return rules
    .filter(({ apiGroups }) => apiGroups.some((group) => AGENT_GROUPS.includes(group)))
    .slice(0, MOST_RULES)
    .map(({ resources, verbs, resourceNames }) => ({
      apiGroups: AGENT_API,
      resources: [...resources],
      verbs: [...verbs],
      ...(resourceNames?.length && { resourceNames: [...resourceNames] }),
    }));
}

/**
 * The account of an entry as its node gets it. It is called like the entry; its role is that of the entry, else that of the
 * ServiceAccount of this name, else the default one.
 */
export function serviceAccountOf(
  application: Application,
  entry: { name: string; serviceAccount?: { roleRef: RoleRef } | undefined },
  find: Find,
): ServiceAccountView {
  const account = find('serviceAccounts', `${v3Name(application)}/${entry.name}`);
  const { kind = 'Role', name } = entry.serviceAccount?.roleRef ?? account?.spec.roleRef ?? { name: DEFAULT_ROLE };
  return { name: entry.name, roleRef: { kind, name }, rules: kind === 'Role' ? rulesAtAgent(name, find) : [] };
}
