import { AGENT_GROUP } from '../../../../src/api/names.ts';
import type { MicroserviceStatus, RoleRule } from '../../../../src/wire/agent.ts';

/** What a role has to allow for a route. */
export interface Grant {
  resource: string;
  verb: 'get' | 'create' | 'update' | 'delete';
}

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
 * names. Without names: of any object.
 */
export function allows(rules: readonly RoleRule[], { resource, verb }: Grant, names?: readonly string[]): boolean {
  return rules.some(
    ({ apiGroups, resources, verbs, resourceNames = [] }) =>
      apiGroups.some((group) => GROUPS.includes(group)) &&
      resources.some((each) => each === '*' || each.toLowerCase() === resource) &&
      verbs.some((each) => each === '*' || (VERBS[each.toLowerCase()] ?? each.toLowerCase()) === verb) &&
      (resourceNames.length === 0 || !names || names.some((name) => resourceNames.includes(name))),
  );
}

/** The microservices that a caller reaches. */
export type ReachFilter = (status: Pick<MicroserviceStatus, 'id' | 'application' | 'name'>) => boolean;

export const REACHES_ALL: ReachFilter = () => true;

/** A workload reaches microservices of its own application, those that its role names where it names any. */
export function reachOf(application: string, rules: readonly RoleRule[], grant: Grant): ReachFilter {
  return (status) =>
    status.application === application && allows(rules, grant, [status.id, ...(status.name ? [status.name] : [])]);
}
