/**
 * The words of v3 roles, and the resources of our API group that each stands for. A verb of v3 gives the verbs of its row; a resource
 * without a row has the verbs of v3 as they are. `*` gives every verb of each resource of the word, and of its `parts`: what has a
 * permission of its own, such as the data of a secret.
 */
interface Word {
  resources: Readonly<Record<string, VerbMap | 'same'>>;
  /** resources that only `*` gives */
  parts?: readonly string[];
}
type VerbMap = Readonly<Record<string, readonly string[]>>;

/** The verbs of v3 roles. `bind` is ours: to give a role, or the membership of a group, to others. */
export const V3_VERBS = ['get', 'list', 'create', 'update', 'patch', 'delete'] as const;

const same = (...resources: string[]): Word => ({
  resources: Object.fromEntries(resources.map((resource) => [resource, 'same' as const])),
});
const NONE: Word = { resources: {} };
/** What starts something is `create` for us, and was `get` or `patch`. */
const STARTED: VerbMap = { get: ['create'], create: ['create'] };
const ORDERED: VerbMap = { patch: ['create'] };
const READ: VerbMap = { get: ['get'] };

export const WORDS: Readonly<Record<string, Word>> = {
  microservices: same('microservices'),
  systemMicroservices: same('systemmicroservices'),
  nodes: {
    resources: { edgenodes: 'same', 'edgenodes/command': ORDERED, 'edgenodes/reconcile': ORDERED },
    parts: ['edgenodes/provisioning-key'],
  },
  execSessions: { resources: { 'microservices/exec': STARTED } },
  systemExecSessions: {
    resources: { 'systemmicroservices/exec': { ...STARTED, delete: ['delete'], patch: ['create', 'delete'] } },
  },
  logs: { resources: { 'microservices/log': READ } },
  systemLogs: { resources: { 'systemmicroservices/log': READ, 'edgenodes/log': READ } },
  applications: same('applications'),
  systemApplications: same('systemapplications'),
  applicationTemplates: same('applicationtemplates'),
  microserviceTemplates: same('microservicetemplates'),
  models: same('models'),
  knowledge: same('knowledge'),
  runtimeClasses: same('runtimeclasses'),
  volumeMounts: same('volumemounts'),
  services: same('services'),
  router: same('router'),
  networkTopology: same('networktopology'),
  cluster: same('cluster'),
  busOperator: same('busoperators'),
  busBootstrap: { resources: { busbootstraps: READ } },
  busHub: same('bushubs'),
  busAccounts: same('busaccounts'),
  busUsers: { ...same('bususers'), parts: ['bususers/creds'] },
  busAccountRules: same('busaccountrules'),
  busUserRules: same('bususerrules'),
  catalog: same('catalogitems'),
  registries: { ...same('registries'), parts: ['registries/credentials'] },
  secrets: { ...same('secrets'), parts: ['secrets/data'] },
  configMaps: same('configmaps'),
  certificates: { ...same('certificates', 'certificateauthorities'), parts: ['certificates/key'] },
  tunnels: same('edgenodes/tunnel'),
  capabilities: same('capabilities'),
  events: same('events'),
  serviceAccounts: same('serviceaccounts'),
  roles: same('roles'),
  roleBindings: same('rolebindings'),
  authUsers: same('authusers'),
  authGroups: same('authgroups'),
  authAdmin: same('authadmin'),
  // Every user may do it, or no route needs it: a rule about it changes nothing.
  users: NONE,
  config: NONE,
  controller: NONE,
  agent: NONE,
};

/** Other spellings, as existing v3 clients send them. */
export const WORD_ALIASES: Readonly<Record<string, string>> = {
  fogs: 'nodes',
  natsOperator: 'busOperator',
  natsBootstrap: 'busBootstrap',
  natsHub: 'busHub',
  natsAccounts: 'busAccounts',
  natsUsers: 'busUsers',
  natsAccountRules: 'busAccountRules',
  natsUserRules: 'busUserRules',
};

/** What roles can permit in the local API of an agent (docs/spec/agent-local-api.md#what-a-role-grants). */
export const AGENT_WORDS: readonly string[] = [
  'auth/whoami',
  'system/gps',
  'microservices',
  'microservices/config/self',
  'microservices/control/self',
];
