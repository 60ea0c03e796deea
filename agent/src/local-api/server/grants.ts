import { AGENT_GROUP } from '../../../../src/api/names.ts';
import type { MicroserviceStatus, RoleRule } from '../../../../src/wire/agent.ts';
import type { MicroserviceSource } from '../../domain/wanted.ts';

/**
 * What a role can grant, whatever its rules say: a route that names none of these is the admin's. `isNamed`: a rule may name
 * single objects; where it names some, it counts for no resource without names.
 */
const GRANTABLE = {
  'auth/whoami': { isNamed: false },
  'system/gps': { isNamed: false },
  microservices: { isNamed: true },
  images: { isNamed: false },
  'images/pull': { isNamed: false },
  'images/pull/status': { isNamed: false },
  models: { isNamed: true },
  'models/pull': { isNamed: false },
  'models/pull/status': { isNamed: false },
  knowledge: { isNamed: true },
  'knowledge/pull': { isNamed: false },
  'knowledge/pull/status': { isNamed: false },
} as const;

/** What a role has to allow for a route. */
export interface Grant {
  resource: keyof typeof GRANTABLE;
  verb: 'get' | 'create' | 'update' | 'delete';
}

export const isNamed = ({ resource }: Pick<Grant, 'resource'>): boolean => GRANTABLE[resource].isNamed;

const GROUPS: readonly string[] = [`${AGENT_GROUP}/v1`, AGENT_GROUP, '*'];
const VERBS: Readonly<Record<string, Grant['verb']>> = {
  list: 'get',
  post: 'create',
  patch: 'update',
  put: 'update',
  remove: 'delete',
};

/**
 * Whether rules allow something of this API (docs/spec/agent-local-api.md#what-a-role-grants); of one object by any of its
 * names. Without names: of some object.
 */
export function allows(rules: readonly RoleRule[], { resource, verb }: Grant, names?: readonly string[]): boolean {
  const isAny = names === undefined && GRANTABLE[resource].isNamed;
  return rules.some(
    ({ apiGroups, resources, verbs, resourceNames = [] }) =>
      apiGroups.some((group) => GROUPS.includes(group)) &&
      resources.some((each) => each === '*' || each.toLowerCase() === resource) &&
      verbs.some((each) => each === '*' || (VERBS[each.toLowerCase()] ?? each.toLowerCase()) === verb) &&
      (resourceNames.length === 0 || isAny || names?.some((name) => resourceNames.includes(name)) === true),
  );
}

/** The microservices that a caller reaches. */
export type ReachFilter = (status: Pick<MicroserviceStatus, 'id' | 'application' | 'name'>) => boolean;

export const REACHES_ALL: ReachFilter = () => true;

/**
 * A workload reaches microservices of its own application, those that its role names where it names any. What belongs to the
 * machine itself is of no application of a controller, whatever its name.
 */
export function reachOf(
  application: string,
  rules: readonly RoleRule[],
  grant: Grant,
  { sourceOf }: { sourceOf(uuid: string): MicroserviceSource },
): ReachFilter {
  return (status) =>
    status.application === application &&
    sourceOf(status.id) === 'managed' &&
    allows(rules, grant, [status.id, ...(status.name ? [status.name] : [])]);
}
