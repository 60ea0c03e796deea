import { AGENT_GROUP } from '../../../api/names.ts';
import type { Application, MicroserviceEntry, ServiceAccount } from '../../../api/v3/index.ts';
import type { Find, Verdict } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import type { RoleRule, ServiceAccountView } from '../../../wire/agent.ts';

/** The role of a microservice that names none. */
const DEFAULT_ROLE = 'microservice';
const AGENT_API = [`${AGENT_GROUP}/v1`];

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

/** Roles that permit more than every microservice may. Only who may bind one gives it to a microservice. */
export const BOUND_ROLES: readonly string[] = Object.entries(SYSTEM_ROLE_RULES).flatMap(([name, rules]) =>
  rules.length > 0 && name !== DEFAULT_ROLE ? [name] : [],
);

/** Of those, the roles that entries have after a write and did not have before, by the names of the entries. */
export function newlyBound(
  after: readonly MicroserviceEntry[] = [],
  before: readonly MicroserviceEntry[] = [],
): { entry: string; role: string }[] {
  const had = new Map(before.map(({ name, serviceAccount }) => [name, serviceAccount?.roleRef.name]));
  return after.flatMap(({ name, serviceAccount }) => {
    const role = serviceAccount?.roleRef.name;
    return role !== undefined && BOUND_ROLES.includes(role) && had.get(name) !== role ? [{ entry: name, role }] : [];
  });
}

/** Two applications may have accounts of the same name. */
export const serviceAccountName = (account: {
  metadata: { name: string };
  spec: { name?: string; applicationName: string };
}) => `${account.spec.applicationName}/${v3Name(account)}`;

/** Why a role cannot be used. */
export function roleVerdict({ kind = 'Role', name }: RoleRef, field: string): Verdict | undefined {
  if (kind === 'Role' && Object.hasOwn(SYSTEM_ROLE_RULES, name)) return undefined;
  return {
    reason: 'RoleNotFound',
    status: 400,
    code: 'ROLE_NOT_FOUND',
    field,
    message: `there is no ${kind === 'Role' ? 'role' : kind} ${JSON.stringify(name)}; the roles are ${Object.keys(SYSTEM_ROLE_RULES).join(', ')}`,
  };
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
  const rules = kind === 'Role' && Object.hasOwn(SYSTEM_ROLE_RULES, name) ? SYSTEM_ROLE_RULES[name] : [];
  return { name: entry.name, roleRef: { kind, name }, rules: [...(rules ?? [])] };
}
