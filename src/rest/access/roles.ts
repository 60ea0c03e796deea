import { GROUP } from '../../api/names.ts';
import { type PolicyRule, RBAC_GROUP, RBAC_RESOURCES } from '../../api/rbac.ts';
import type { Kind } from '../../kinds/definition.ts';
import { DEFAULT_GROUPS_PREFIX, roleObjectOf } from '../../subjects/access/rules/names.ts';
import { AGENT_API } from '../../subjects/access/rules/translation.ts';
import { BOUND_ROLES } from '../../subjects/accounts/rules/service-account.ts';
import { KINDS, type Kinds } from '../../subjects/kinds.ts';

/**
 * The permissions of the four roles of users (docs/spec/identity-and-access.md#roles). One set of roles applies to REST and
 * kubectl: a resource is the plural of a CRD, a subresource with its own permission, or a name that only REST has.
 */

export const ROLE_NAMES = ['admin', 'sre', 'developer', 'viewer'] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

const READ = ['get', 'list', 'watch'];
const WRITE = [...READ, 'create', 'update', 'patch', 'delete'];

interface Row {
  /** kinds with this `access` belong to the row; `resources` lists those that are no kind */
  kinds?: Kind['access'];
  resources: readonly string[];
  /** the objects that the row is limited to */
  names?: readonly string[];
  /** all verbs that there are, where these are neither the verbs of an object nor the verbs of the roles */
  verbs?: readonly string[];
  sre?: readonly string[];
  developer?: readonly string[];
  viewer?: readonly string[];
}

const MATRIX: readonly Row[] = [
  {
    kinds: 'workloads',
    resources: [
      'applicationtemplates',
      'microservices',
      'microservicetemplates',
      'services',
      'secrets',
      'configmaps',
      'volumemounts',
      'models',
      'knowledge',
      'runtimeclasses',
      'certificates',
      'busaccounts',
      'bususers',
    ],
    sre: WRITE,
    developer: WRITE,
    viewer: READ,
  },
  {
    kinds: 'infrastructure',
    resources: ['router', 'networktopology', 'cluster', 'systemmicroservices', 'systemapplications'],
    sre: WRITE,
    developer: READ,
    viewer: READ,
  },
  {
    kinds: 'installation',
    resources: ['busoperators', 'bushubs', 'capabilities'],
    sre: READ,
    developer: READ,
    viewer: READ,
  },
  {
    kinds: 'identity',
    resources: ['roles', 'rolebindings', 'authusers', 'authgroups'],
    sre: READ,
    developer: READ,
    viewer: READ,
  },
  // to give a role to a microservice
  { resources: ['roles'], names: BOUND_ROLES, sre: ['bind'] },
  { resources: ['events'], sre: WRITE },
  // resources that give access to a machine or a container
  { resources: ['edgenodes/provisioning-key', 'edgenodes/command', 'edgenodes/reconcile'], sre: ['create'] },
  { resources: ['edgenodes/tunnel'], sre: ['get', 'patch'], developer: ['get'] },
  { resources: ['microservices/exec'], sre: ['create'], developer: ['create'] },
  { resources: ['systemmicroservices/exec'], sre: ['create', 'delete'] },
  { resources: ['microservices/log'], sre: ['get'], developer: ['get'] },
  { resources: ['systemmicroservices/log', 'edgenodes/log'], sre: ['get'], developer: ['get'] },
  // resources that contain a secret
  { resources: ['secrets/data', 'certificates/key', 'registries/credentials', 'bususers/creds'], sre: ['get'] },
  // to store more than the budget of users, when an incident has to be handled
  { resources: ['budgets/reserve'], sre: ['create'] },
  // to create a node of the system, which belongs to the control plane
  { resources: ['edgenodes/system'], verbs: ['create'] },
  { resources: ['busbootstraps'], verbs: ['get'] },
  { resources: ['authadmin'], verbs: ['create', 'patch'] },
  // to give the membership of a group
  { resources: ['authgroups'], verbs: ['bind'] },
];

/**
 * Every resource of some role, with the verbs that a role can permit for it: what custom roles are made of, and what the controller may
 * hand out. A route of any other resource could be called by admins only, by mistake.
 */
export function knownResources(kinds: Kinds = KINDS): ReadonlyMap<string, readonly string[]> {
  const known = new Map<string, readonly string[]>();
  for (const row of MATRIX)
    for (const resource of resourcesOf(row, kinds))
      known.set(resource, [...new Set([...(known.get(resource) ?? []), ...verbsOf(row, resource)])]);
  return known;
}

function verbsOf({ verbs, names, sre = [], developer = [] }: Row, resource: string): readonly string[] {
  if (verbs) return verbs;
  return resource.includes('/') || names ? [...sre, ...developer] : WRITE;
}

/** The verbs of each role for each resource, without those that are limited to names. */
export function permittedVerbs(
  kinds: Kinds = KINDS,
): ReadonlyMap<string, Readonly<Record<RoleName, readonly string[]>>> {
  const given = (role: RoleName, resource: string, known: readonly string[]) => {
    const rules = ownRulesOf(role, kinds).filter((rule) => !rule.resourceNames);
    const has = (list: readonly string[], one: string) => list.includes('*') || list.includes(one);
    return known.filter((verb) => rules.some((rule) => has(rule.resources, resource) && has(rule.verbs, verb)));
  };
  const table = [...knownResources(kinds)].map(([resource, known]) => {
    const verbs = Object.fromEntries(ROLE_NAMES.map((role) => [role, given(role, resource, known)]));
    return [resource, verbs as Record<RoleName, string[]>] as const;
  });
  return new Map(table.sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The rules that permit all of it: resources with the same verbs together. */
export function rulesOfAll(known: ReadonlyMap<string, readonly string[]>): PolicyRule[] {
  const byVerbs = new Map<string, string[]>();
  for (const [resource, verbs] of known) {
    const key = verbs.join(' ');
    byVerbs.set(key, [...(byVerbs.get(key) ?? []), resource]);
  }
  return [...byVerbs].map(([verbs, resources]) => ({ apiGroups: [GROUP], resources, verbs: verbs.split(' ') }));
}

const resourcesOf = ({ kinds: row, resources }: Row, kinds: Kinds): string[] => [
  ...new Set([
    ...Object.values(kinds).flatMap(({ access, definition }) => (access === row ? [definition.plural] : [])),
    ...resources,
  ]),
];

/**
 * What users read of the cluster itself: events, the causes of a state, with `kubectl describe` and `kubectl get events`; and
 * Leases, which say what replica leads, which versions run and which release of the agent there is.
 */
const CLUSTER_READS: readonly PolicyRule[] = [
  { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: READ },
  { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: READ },
];

/**
 * What users do with the roles and bindings of the cluster, which are the roles of the v3 API as well. Who changes them gives no more than
 * they have, as the API server checks; the roles of the installation have an admission policy of their own.
 */
const clusterRoles = (role: RoleName): PolicyRule => ({
  apiGroups: [RBAC_GROUP],
  resources: Object.values(RBAC_RESOURCES).map(({ plural }) => plural),
  verbs: role === 'admin' ? WRITE : READ,
});

/** What roles of microservices permit at agents: nothing of the controller, and admins may give it. */
const AGENT_RULES: readonly PolicyRule[] = [{ apiGroups: [AGENT_API], resources: ['*'], verbs: ['*'] }];

/** The rules of one role: resources with the same verbs together. */
export function rulesOf(role: RoleName, kinds: Kinds = KINDS): PolicyRule[] {
  return [...ownRulesOf(role, kinds), ...(role === 'admin' ? AGENT_RULES : []), clusterRoles(role), ...CLUSTER_READS];
}

/** The rules of one role in our API group. */
export function ownRulesOf(role: RoleName, kinds: Kinds = KINDS): PolicyRule[] {
  if (role === 'admin') return [{ apiGroups: [GROUP], resources: ['*'], verbs: ['*'] }];
  const byVerbs = new Map<string, string[]>();
  const named: PolicyRule[] = [];
  for (const row of MATRIX) {
    const verbs = row[role];
    if (!verbs) continue;
    if (row.names) {
      named.push({ apiGroups: [GROUP], resources: row.resources, verbs, resourceNames: row.names });
      continue;
    }
    const key = verbs.join(' ');
    byVerbs.set(key, [...(byVerbs.get(key) ?? []), ...resourcesOf(row, kinds)]);
  }
  const unnamed = [...byVerbs].map(([verbs, resources]) => ({
    apiGroups: [GROUP],
    resources,
    verbs: verbs.split(' '),
  }));
  return [...unnamed, ...named];
}

export interface RoleManifest {
  apiVersion: 'rbac.authorization.k8s.io/v1';
  kind: 'Role' | 'RoleBinding';
  metadata: { name: string; namespace: string };
  rules?: PolicyRule[];
  roleRef?: { apiGroup: string; kind: string; name: string };
  subjects?: { apiGroup: string; kind: string; name: string }[];
}

/**
 * The roles and the binding of each to its group, `<groups>:<role>`. All are in the controller's namespace, so that two
 * installations in one cluster do not share roles; two with the same value of `groups` share their users.
 */
export interface RolesOptions {
  namespace: string;
  groups?: string;
  kinds?: Kinds;
}

export function roles({ namespace, groups = DEFAULT_GROUPS_PREFIX, kinds = KINDS }: RolesOptions): RoleManifest[] {
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const apiGroup = 'rbac.authorization.k8s.io';
  return ROLE_NAMES.flatMap((role) => {
    const metadata = { name: roleObjectOf(role), namespace };
    return [
      { apiVersion, kind: 'Role' as const, metadata, rules: rulesOf(role, kinds) },
      {
        apiVersion,
        kind: 'RoleBinding' as const,
        metadata,
        roleRef: { apiGroup, kind: 'Role', name: metadata.name },
        subjects: [{ apiGroup, kind: 'Group', name: `${groups}:${role}` }],
      },
    ];
  });
}
