import { GROUP } from '../api/names.ts';
import type { PolicyRule } from '../api/rbac.ts';
import type { Kinds } from '../subjects/kinds.ts';
import { ROLE_NAMES, rulesOf } from './access/roles.ts';
import type { Attributes, Authenticator, Authorizer, UserInfo } from './contract/access.ts';

/** Whether rules allow an operation in our API group, by the rules of the RBAC authorizer of Kubernetes. */
export function permits(
  rules: readonly PolicyRule[],
  { group: asked = GROUP, resource, verb, name }: Attributes,
): boolean {
  const subresource = resource.split('/')[1];
  const resources = ['*', resource, ...(subresource ? [`*/${subresource}`] : [])];
  return rules.some(
    (rule) =>
      rule.apiGroups.some((group) => group === '*' || group === asked) &&
      rule.resources.some((one) => resources.includes(one)) &&
      rule.verbs.some((one) => one === '*' || one === verb) &&
      (!rule.resourceNames?.length || (name !== undefined && rule.resourceNames.includes(name))),
  );
}

/** An authorizer over rules per user or group. */
export function createRuleAuthorizer(rulesOf: Readonly<Record<string, readonly PolicyRule[]>>): Authorizer {
  return {
    async allowed(identity, attributes) {
      return [identity.name, ...identity.groups].some((subject) => permits(rulesOf[subject] ?? [], attributes));
    },
  };
}

/** An authenticator over known tokens. */
export function createTokenTable(identities: Readonly<Record<string, UserInfo>>): Authenticator {
  return {
    async authenticate(token) {
      return Object.hasOwn(identities, token) ? identities[token] : undefined;
    },
  };
}

/** A token for each role, by its name, with the rules of the role. */
export const tokensOfRoles = (kinds?: Kinds) => ({
  authenticator: createTokenTable(Object.fromEntries(ROLE_NAMES.map((role) => [role, { name: role, groups: [] }]))),
  authorizer: createRuleAuthorizer(Object.fromEntries(ROLE_NAMES.map((role) => [role, rulesOf(role, kinds)]))),
});
