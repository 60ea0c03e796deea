import { GROUP } from '../../api/names.ts';
import type { Attributes, Authenticator, Authorizer, UserInfo } from '../contract/access.ts';

/** A rule of Kubernetes RBAC. */
export interface PolicyRule {
  apiGroups: readonly string[];
  resources: readonly string[];
  verbs: readonly string[];
  resourceNames?: readonly string[];
}

/** Whether rules allow an operation in our API group, by the rules of the RBAC authorizer of Kubernetes. */
export function permits(rules: readonly PolicyRule[], { resource, verb, name }: Attributes): boolean {
  const subresource = resource.split('/')[1];
  const resources = ['*', resource, ...(subresource ? [`*/${subresource}`] : [])];
  return rules.some(
    (rule) =>
      rule.apiGroups.some((group) => group === '*' || group === GROUP) &&
      rule.resources.some((one) => resources.includes(one)) &&
      rule.verbs.some((one) => one === '*' || one === verb) &&
      (!rule.resourceNames?.length || (name !== undefined && rule.resourceNames.includes(name))),
  );
}

/** An authorizer over rules per user or group, in memory: for tests and tools. */
export function createRuleAuthorizer(rulesOf: Readonly<Record<string, readonly PolicyRule[]>>): Authorizer {
  return {
    async allowed(identity, attributes) {
      return [identity.name, ...identity.groups].some((subject) => permits(rulesOf[subject] ?? [], attributes));
    },
  };
}

/** An authenticator over known tokens, in memory: for tests. */
export function createTokenTable(identities: Readonly<Record<string, UserInfo>>): Authenticator {
  return {
    async authenticate(token) {
      return Object.hasOwn(identities, token) ? identities[token] : undefined;
    },
  };
}
