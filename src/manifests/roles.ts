import { FIELD_MANAGERS, GROUP } from '../api/names.ts';
import { RBAC_GROUP, RBAC_RESOURCES } from '../api/rbac.ts';
import { knownResources, roles, rulesOfAll } from '../rest/access/roles.ts';
import { roleObjectOf, SYSTEM_ROLES } from '../subjects/access/rules/names.ts';
import { AGENT_API } from '../subjects/access/rules/translation.ts';
import { HUB_NAMES, MOST_MEMBERS, memberName } from '../subjects/bus-servers/rules/hub.ts';
import { KINDS } from '../subjects/kinds.ts';
import { ROUTER_HUB_NAMES } from '../subjects/routers/rules/hub-objects.ts';

export type Manifest = Record<string, unknown> & { kind: string };

export const CONTROLLER_ACCOUNT = FIELD_MANAGERS.controller;
/** Names of all kinds in paths of the API. */
export const PLURALS = Object.values(KINDS).map(({ definition }) => definition.plural);
const ALL = ['get', 'list', 'watch', 'create', 'update', 'patch', 'delete'];

/** Namespace and service account of the controller; the chart has its own. */
export const namespaceManifests = (namespace: string): Manifest[] => [
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
  { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: CONTROLLER_ACCOUNT, namespace } },
];

/**
 * What the controller may give to others by roles: everything that a role of users can permit, and no more. The API server refuses roles
 * with other rules. It binds the roles of the installation by their names.
 */
const handedOut = () => [
  ...rulesOfAll(knownResources()),
  { apiGroups: [AGENT_API], resources: ['*'], verbs: ['*'] },
  { apiGroups: [RBAC_GROUP], resources: Object.values(RBAC_RESOURCES).map(({ plural }) => plural), verbs: ALL },
  {
    apiGroups: [RBAC_GROUP],
    resources: [RBAC_RESOURCES.roles.plural],
    resourceNames: SYSTEM_ROLES.map(roleObjectOf),
    verbs: ['bind'],
  },
];

/**
 * The minimal permissions of the controller: its own kinds, Secrets and ConfigMaps of its namespace, what it may hand out, and two
 * reviews.
 */
export function controllerRoles(namespace: string): Manifest[] {
  const subjects = [{ kind: 'ServiceAccount', name: CONTROLLER_ACCOUNT, namespace }];
  return [
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { name: CONTROLLER_ACCOUNT, namespace },
      rules: [
        { apiGroups: [GROUP], resources: PLURALS, verbs: ALL },
        {
          apiGroups: [GROUP],
          resources: PLURALS.map((plural) => `${plural}/status`),
          verbs: ['get', 'update', 'patch'],
        },
        { apiGroups: [GROUP], resources: PLURALS.map((plural) => `${plural}/finalizers`), verbs: ['update'] },
        { apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: ALL },
        // replicas authenticate each other with short-lived tokens of their common account
        {
          apiGroups: [''],
          resources: ['serviceaccounts/token'],
          resourceNames: [CONTROLLER_ACCOUNT],
          verbs: ['create'],
        },
        { apiGroups: ['events.k8s.io'], resources: ['events'], verbs: ['create', 'patch'] },
        { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs: ALL },
        ...handedOut(),
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { name: CONTROLLER_ACCOUNT, namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: CONTROLLER_ACCOUNT },
      subjects,
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRole',
      metadata: { name: `${CONTROLLER_ACCOUNT}-${namespace}` },
      rules: [
        { apiGroups: ['authentication.k8s.io'], resources: ['tokenreviews'], verbs: ['create'] },
        { apiGroups: ['authorization.k8s.io'], resources: ['subjectaccessreviews'], verbs: ['create'] },
        // whether a binding of any namespace still names a user of before
        { apiGroups: [RBAC_GROUP], resources: ['rolebindings', 'clusterrolebindings'], verbs: ['list'] },
      ],
    },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata: { name: `${CONTROLLER_ACCOUNT}-${namespace}` },
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: `${CONTROLLER_ACCOUNT}-${namespace}`,
      },
      subjects,
    },
  ];
}

/** What the controller may do besides where it makes the servers of the hub of the message bus: these objects alone. */
export function hubRoles(namespace: string): Manifest[] {
  const name = `${CONTROLLER_ACCOUNT}-bus-hub`;
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const groups = [
    { apiGroups: [''], resources: ['services'] },
    { apiGroups: ['apps'], resources: ['statefulsets'] },
    { apiGroups: ['policy'], resources: ['poddisruptionbudgets'] },
    { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'] },
  ];
  const pods = Array.from({ length: MOST_MEMBERS }, (_, i) => memberName(i));
  return [
    {
      ...api,
      kind: 'Role',
      metadata: { name, namespace },
      rules: [
        // The name of an object that is to be created is not known to the authorizer.
        ...groups.map((group) => ({ ...group, verbs: ['create'] })),
        ...groups.map((group) => ({
          ...group,
          resourceNames: [HUB_NAMES.members, HUB_NAMES.headless],
          verbs: ['get', 'patch', 'delete'],
        })),
        { apiGroups: [''], resources: ['pods'], resourceNames: pods, verbs: ['get'] },
        // whether a member has every token, and may take clients
        { apiGroups: [''], resources: ['pods/status'], resourceNames: pods, verbs: ['patch'] },
      ],
    },
    {
      ...api,
      kind: 'RoleBinding',
      metadata: { name, namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: CONTROLLER_ACCOUNT, namespace }],
    },
  ];
}

/** What the controller may do besides where it makes the default router: these objects alone. */
export function routerHubRoles(namespace: string): Manifest[] {
  const name = `${CONTROLLER_ACCOUNT}-router-hub`;
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const groups = [
    { apiGroups: [''], resources: ['services'], names: [ROUTER_HUB_NAMES.service, ROUTER_HUB_NAMES.pod] },
    { apiGroups: ['apps'], resources: ['deployments'], names: [ROUTER_HUB_NAMES.workload] },
    { apiGroups: ['networking.k8s.io'], resources: ['networkpolicies'], names: [ROUTER_HUB_NAMES.workload] },
  ];
  return [
    {
      ...api,
      kind: 'Role',
      metadata: { name, namespace },
      rules: [
        // The name of an object that is to be created is not known to the authorizer.
        ...groups.map(({ names: _, ...group }) => ({ ...group, verbs: ['create'] })),
        ...groups.map(({ names, ...group }) => ({
          ...group,
          resourceNames: names,
          verbs: ['get', 'patch', 'delete'],
        })),
      ],
    },
    {
      ...api,
      kind: 'RoleBinding',
      metadata: { name, namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: CONTROLLER_ACCOUNT, namespace }],
    },
  ];
}

/**
 * What the controller may do besides where services are on. Users choose the names of Services, which a rule cannot list; the controller
 * changes and deletes none but its own (src/kube/apply.ts).
 */
export function serviceRoles(namespace: string): Manifest[] {
  const name = `${CONTROLLER_ACCOUNT}-services`;
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const verbs = ['get', 'list', 'watch', 'create', 'patch', 'delete'];
  return [
    {
      ...api,
      kind: 'Role',
      metadata: { name, namespace },
      rules: [{ apiGroups: [''], resources: ['services'], verbs }],
    },
    {
      ...api,
      kind: 'RoleBinding',
      metadata: { name, namespace },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name: CONTROLLER_ACCOUNT, namespace }],
    },
  ];
}

/** What the job of the chart that applies CRDs may do: no CRD but ours is changed, and none is removed. They exist while it runs. */
export function crdRoles(namespace: string): Manifest[] {
  const account = 'skerry-crds';
  const hook = {
    'helm.sh/hook': 'pre-install,pre-upgrade',
    'helm.sh/hook-weight': '-5',
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  };
  const name = `${account}-${namespace}`;
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  const group = { apiGroups: ['apiextensions.k8s.io'], resources: ['customresourcedefinitions'] };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: account, namespace, annotations: hook } },
    {
      ...api,
      kind: 'ClusterRole',
      metadata: { name, annotations: hook },
      rules: [
        // The name of an object that is to be created is not known to the authorizer.
        { ...group, verbs: ['create'] },
        { ...group, resourceNames: PLURALS.map((plural) => `${plural}.${GROUP}`), verbs: ['get', 'update'] },
      ],
    },
    {
      ...api,
      kind: 'ClusterRoleBinding',
      metadata: { name, annotations: hook },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
      subjects: [{ kind: 'ServiceAccount', name: account, namespace }],
    },
  ];
}

/** What the job of the chart that frees objects from finalizers may do, once the rest of the release is deleted. They exist while it runs. */
export function uninstallRoles(namespace: string): Manifest[] {
  const name = 'skerry-uninstall';
  const hook = {
    'helm.sh/hook': 'post-delete',
    'helm.sh/hook-weight': '-5',
    'helm.sh/hook-delete-policy': 'before-hook-creation,hook-succeeded',
  };
  const metadata = { name, namespace, annotations: hook };
  const api = { apiVersion: 'rbac.authorization.k8s.io/v1' };
  return [
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata },
    {
      ...api,
      kind: 'Role',
      metadata,
      rules: [{ apiGroups: [GROUP], resources: PLURALS, verbs: ['get', 'list', 'patch'] }],
    },
    {
      ...api,
      kind: 'RoleBinding',
      metadata,
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace }],
    },
  ];
}

/** The roles of users: admin, sre, developer, viewer, each bound to the group `<groups>:<role>`. */
export const peopleRoles = (namespace: string, groups?: string): Manifest[] =>
  roles({ namespace, groups }) as unknown as Manifest[];
