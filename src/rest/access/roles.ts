import { GROUP } from '../../api/names.ts';
import { KINDS, type Kind, type Kinds } from '../../kinds/index.ts';
import type { PolicyRule } from './rules.ts';

/**
 * What the four roles of people may do (docs/spec/identity-and-access.md#roles). One set of roles applies
 * to REST and kubectl: a resource is the plural of a CRD, a subresource with its own permission, or a name of REST only.
 */

export const ROLE_NAMES = ['admin', 'sre', 'developer', 'viewer'] as const;
export type RoleName = (typeof ROLE_NAMES)[number];

const READ = ['get', 'list', 'watch'];
const WRITE = [...READ, 'create', 'update', 'patch', 'delete'];

interface Row {
  /** of kinds that say so; the resources of the row are those that are no kind */
  kinds?: Kind['access'];
  resources: readonly string[];
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
      'catalogitems',
      'secrets',
      'configmaps',
      'volumemounts',
      'models',
      'knowledge',
      'runtimeclasses',
      'certificates',
      'serviceaccounts',
      'busaccounts',
      'bususers',
      'busaccountrules',
      'bususerrules',
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
  { resources: ['busoperators', 'bushubs'], sre: READ, developer: READ, viewer: READ },
  { resources: ['roles', 'rolebindings', 'authusers', 'authgroups'], sre: READ, developer: READ, viewer: READ },
  { resources: ['events'], sre: WRITE },
  // what leads to a machine or into a container
  { resources: ['edgenodes/provisioning-key', 'edgenodes/command', 'edgenodes/reconcile'], sre: ['create'] },
  { resources: ['edgenodes/tunnel'], sre: ['get', 'patch'], developer: ['get'] },
  { resources: ['microservices/exec'], sre: ['create'], developer: ['create'] },
  { resources: ['systemmicroservices/exec'], sre: ['create', 'delete'] },
  { resources: ['microservices/log'], sre: ['get'], developer: ['get'] },
  { resources: ['systemmicroservices/log', 'edgenodes/log'], sre: ['get'], developer: ['get'] },
  // what gives away a secret
  { resources: ['secrets/data', 'certificates/key', 'registries/credentials', 'bususers/creds'], sre: ['get'] },
  { resources: ['busbootstraps', 'authadmin'] },
];

/** Every resource that some role is about; a route about any other could be called by admins only, by mistake. */
export const knownResources = (kinds: Kinds = KINDS): ReadonlySet<string> =>
  new Set(MATRIX.flatMap((row) => resourcesOf(row, kinds)));

const resourcesOf = ({ kinds: row, resources }: Row, kinds: Kinds): string[] => [
  ...new Set([
    ...Object.values(kinds).flatMap(({ access, definition }) => (access === row ? [definition.plural] : [])),
    ...resources,
  ]),
];

/** Events of the cluster: `kubectl describe` and `kubectl get events` are how people learn why something is as it is. */
const CLUSTER_EVENTS: PolicyRule = { apiGroups: ['', 'events.k8s.io'], resources: ['events'], verbs: READ };

/** The rules of one role: resources with the same verbs together. */
export function rulesOf(role: RoleName, kinds: Kinds = KINDS): PolicyRule[] {
  return [...ownRulesOf(role, kinds), CLUSTER_EVENTS];
}

/** Those in our API group. */
function ownRulesOf(role: RoleName, kinds: Kinds): PolicyRule[] {
  if (role === 'admin') return [{ apiGroups: [GROUP], resources: ['*'], verbs: ['*'] }];
  const byVerbs = new Map<string, string[]>();
  for (const row of MATRIX) {
    const verbs = row[role];
    if (!verbs) continue;
    const key = verbs.join(' ');
    byVerbs.set(key, [...(byVerbs.get(key) ?? []), ...resourcesOf(row, kinds)]);
  }
  return [...byVerbs].map(([verbs, resources]) => ({ apiGroups: [GROUP], resources, verbs: verbs.split(' ') }));
}

const PRODUCT = GROUP.split('.')[0];
/** The object that holds a role. */
const roleObjectName = (role: RoleName) => `${PRODUCT}-${role}`;

export interface RoleManifest {
  apiVersion: 'rbac.authorization.k8s.io/v1';
  kind: 'Role' | 'RoleBinding';
  metadata: { name: string; namespace: string };
  rules?: PolicyRule[];
  roleRef?: { apiGroup: string; kind: string; name: string };
  subjects?: { apiGroup: string; kind: string; name: string }[];
}

/**
 * The roles and the binding of each to its group, `<groups>:<role>`. Everything is in the controller's namespace, so that
 * two installations in one cluster do not share them; two that name their groups alike share their people.
 */
export interface RolesOptions {
  namespace: string;
  groups?: string;
  kinds?: Kinds;
}

export function roles({ namespace, groups = PRODUCT, kinds = KINDS }: RolesOptions): RoleManifest[] {
  const apiVersion = 'rbac.authorization.k8s.io/v1';
  const apiGroup = 'rbac.authorization.k8s.io';
  return ROLE_NAMES.flatMap((role) => {
    const metadata = { name: roleObjectName(role), namespace };
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
