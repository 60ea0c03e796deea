/**
 * Every literal with the name of the product, and every name that several parts of the system must spell alike.
 * No other file of the repository has these strings.
 */

/** API group of the custom resources. */
export const GROUP = 'skerry.dev';
/** The only version, which is served and stored. */
export const VERSION = 'v3';
/** `apiVersion` of our custom resources. */
export const API_VERSION = `${GROUP}/${VERSION}`;
/** `apiVersion` values that uploaded files may carry; the second is the alias group of existing v3 files. */
export const UPLOAD_API_VERSIONS: readonly string[] = [API_VERSION, 'iofog.org/v3'];
/** API group of the agent's own local API, as used in its manifests, claims and roles. */
export const AGENT_GROUP = 'agent.skerry.dev';
/** Where containers find the token of their microservice. */
export const SERVICE_ACCOUNT_MOUNT = `/var/run/secrets/${AGENT_GROUP}/serviceaccount`;
/** The file with the public key that the agent's tokens are signed with. */
export const AGENT_KEY_FILE = 'skerry-agent.jwk';

/** `kubectl get skerry` lists every kind of ours. */
export const CATEGORY = 'skerry';
/** Namespace of the controller when CONTROLLER_NAMESPACE is unset. */
export const DEFAULT_NAMESPACE = 'skerry';
/** Name of an installation when CONTROLLER_NAME is unset, and its label app.kubernetes.io/name when APP_LABEL is. */
export const DEFAULT_INSTALLATION = 'skerry';
/** What tags of nodes that select services begin with when SERVICE_ANNOTATION_TAG is unset. */
export const SERVICE_TAG = `${GROUP}/service`;
/** Where the controller runs: in a cluster, which may have services of it, or outside, with nodes of the system. */
export const CONTROL_PLANES = ['kubernetes', 'remote'] as const;
export type ControlPlane = (typeof CONTROL_PLANES)[number];
/** Audience that a ServiceAccount token carries when it is meant for the REST API. */
export const TOKEN_AUDIENCE = 'skerry';

/** Field managers, the owners of fields of an object (server-side apply). */
export const FIELD_MANAGERS = {
  controller: 'skerry-controller',
  rest: 'skerry-rest',
  template: 'skerry-template',
} as const;

export const LABELS = {
  /** core Secrets and ConfigMaps that may be listed over REST and used by microservices */
  shareable: `${GROUP}/shareable`,
  /** objects in use; the admission policy refuses their DELETE */
  inUse: `${GROUP}/in-use`,
  /** objects that decide what microservices of the system run; the admission policy says who changes them */
  usedBySystem: `${GROUP}/used-by-system`,
  /** Secrets with a provisioning key */
  provisioningKey: `${GROUP}/provisioning-key`,
  /** Secrets with the public key of a node */
  nodeKey: `${GROUP}/node-key`,
  /** Secrets with a part of the audit log */
  auditLog: `${GROUP}/audit-log`,
  /** Secrets of users and logins; the value says of what: user, email, artefact, once, keys, bootstrap */
  identity: `${GROUP}/identity`,
  /** on an artefact of a login: its model, and hashes of the grant and of the user that it belongs to */
  artefactModel: `${GROUP}/artefact-model`,
  artefactGrant: `${GROUP}/artefact-grant`,
  artefactUser: `${GROUP}/artefact-user`,
  /** Leases of replicas of the controller */
  replica: `${GROUP}/replica`,
  /** on these Leases: version of the controller; the customary label */
  version: 'app.kubernetes.io/version',
  /** on a Secret: the Certificate or CertificateAuthority whose key and certificate it has */
  certificate: `${GROUP}/certificate`,
  authority: `${GROUP}/certificate-authority`,
  /** Secrets with what the system itself needs on a node */
  platform: `${GROUP}/platform`,
  /** Secrets with a key of the message bus; the value says of what: operator, account, user */
  bus: `${GROUP}/bus`,
  /** v3 type of a shareable Secret */
  secretType: `${GROUP}/secret-type`,
  /** identity of an object, repeated from its status: see src/rules/identity.ts */
  uuid: `${GROUP}/uuid`,
  id: `${GROUP}/id`,
  /** port of a service, repeated from its status, which a restore may lack */
  bridgePort: `${GROUP}/bridge-port`,
  /** Roles and RoleBindings that the v3 API has; the value says which: role, binding */
  rbac: `${GROUP}/rbac`,
} as const;

export const ANNOTATIONS = {
  /** on an Application: JSON object `{entry name: count}`; each increment requests one rebuild */
  rebuild: `${GROUP}/rebuild`,
  /** on an EdgeNode or Service: counts of requested actions, which a repeated apply does not reset */
  reconcile: `${GROUP}/reconcile`,
  reboot: `${GROUP}/reboot`,
  prune: `${GROUP}/prune`,
  version: `${GROUP}/version`,
  /** on an EdgeNode: `open` or `close`, whether its machine opens the tunnel */
  tunnel: `${GROUP}/tunnel`,
  /** on an Application of the system: JSON list of the entries that belong to the platform of its node; the controller's own */
  platform: `${GROUP}/platform`,
  /** on an EdgeNode or Application in deletion: do not wait for the machine */
  forceDelete: `${GROUP}/force-delete`,
  /** on a Certificate or CertificateAuthority: when its renewal was requested, RFC 3339 */
  renew: `${GROUP}/renew`,
  /** on any object of ours: neither REST nor kubectl deletes it while the annotation is present and not "false" */
  protected: `${GROUP}/protected`,
  /** on an EdgeNode: epoch of a restored datastore that the operator accepts (src/rules/epoch.ts) */
  acceptEpoch: `${GROUP}/accept-epoch`,
  /** on a Registry: REST is creating it; it has no id, and is deleted after a minute unless its creation is completed */
  draft: `${GROUP}/draft`,
  /** on a Secret: the only registry that its passwords may be sent to (src/subjects/catalog/rules/registry-destination.ts) */
  registry: `${GROUP}/registry`,
  /** on the Lease of a replica: JSON of what it says about itself, and of what users changed */
  replica: `${GROUP}/replica`,
  replicaEdit: `${GROUP}/replica-edit`,
  /** on objects in use: why their DELETE is refused, with the first users */
  usedBy: `${GROUP}/used-by`,
  /** on core objects and Services: when REST last changed it, RFC 3339 */
  updatedAt: `${GROUP}/updated-at`,
  /** on the Secret of a user: JSON of what replicas know of it without its content */
  identityFacts: `${GROUP}/identity-facts`,
  /** on the Secret of the revision key, which the first start makes: this version or a later one made the installation */
  knowsLogins: `${GROUP}/knows-logins`,
  /** on an AuthUser: JSON list of the e-mails that REST took from it, until no role binding names them; the controller's own */
  formerEmails: `${GROUP}/former-emails`,
  /** on a Secret of a login: when the leader removes it, RFC 3339 */
  expires: `${GROUP}/expires`,
  /** on an Application: hash of the reference to its template that was rendered last */
  template: `${GROUP}/template`,
  /** on an Application of the system: when its debug shell goes unless it is in use, RFC 3339 */
  debugUntil: `${GROUP}/debug-until`,
  /** on an Application of the system: what it was made for, and goes with */
  madeFor: `${GROUP}/made-for`,
  /** on any object that REST stored: the user whom it counts for (src/rules/budget.ts) */
  storedBy: `${GROUP}/stored-by`,
  /** on a Secret of the audit log: the number of its events */
  auditEvents: `${GROUP}/audit-events`,
  /** on core objects: the v3 name that is not a legal object name; on a RoleBinding: the v3 name, where the object has another */
  name: `${GROUP}/name`,
  /** on a RoleBinding or Role of the v3 API: uid of the object in whose place it is, which is deleted then; the controller's own */
  replaces: `${GROUP}/replaces`,
  /** on a Role of the v3 API: JSON of its rules as they were written, and a digest of the rules of the cluster made from them */
  v3Rules: `${GROUP}/v3-rules`,
  /** on core objects: map of escaped keys to their v3 spelling */
  keys: `${GROUP}/keys`,
} as const;

/** Prefix of annotations on an Application, one for each entry: the same for the template of the entry. */
export const TEMPLATE_ANNOTATION_PREFIX = `template.${GROUP}/`;

/** Why a DELETE is refused, with one text for REST and kubectl. */
export const PROTECTED = `it is protected against deletion; first remove its annotation ${ANNOTATIONS.protected}`;

export const FINALIZERS = {
  /** keeps an Application or EdgeNode until the machine no longer runs its containers */
  workloads: `${GROUP}/workloads`,
  /** keeps an object usable until its last user is removed */
  inUse: `${GROUP}/in-use`,
  /** keeps an AuthUser until no role binding names it: somebody else may get its e-mail then */
  roleBindings: `${GROUP}/role-bindings`,
} as const;

/** Labels that the agent sets on every container; they identify it, and names do not. */
export const CONTAINER_LABELS = {
  agent: `${GROUP}/agent`,
  uuid: `${GROUP}/microservice-uid`,
  application: `${GROUP}/application`,
  microservice: `${GROUP}/microservice`,
  node: `${GROUP}/node-uid`,
  revision: `${GROUP}/revision`,
  digest: `${GROUP}/digest`,
  generation: `${GROUP}/container-generation`,
  /** who wants it: managed (a controller) or local (the machine) */
  scope: `${GROUP}/scope`,
  /** what it is for the machine: workload, router, bus or controller */
  role: `${GROUP}/role`,
  system: `${GROUP}/system`,
  engine: `${GROUP}/runtime-engine`,
  hostNetwork: `${GROUP}/host-network`,
  healthCheck: `${GROUP}/healthcheck`,
} as const;
/** Users may not set container annotations and labels with this prefix. */
export const RESERVED_LABEL_PREFIX = `${GROUP}/`;
/** Containers are called `<prefix><microservice uuid>`. */
export const CONTAINER_NAME_PREFIX = 'skerry-';
/** Only the agent sets environment variables with this prefix. */
export const RESERVED_ENV_PREFIX = 'SKERRY_';

/** ConfigMap by which the leader tells the admission policy how much of the budgets is used. */
export const BUDGET_POLICY_NAME = 'skerry-budgets';
/** ConfigMap by which the leader tells the admission policy what names applications of the system use. */
export const SYSTEM_NAMES_NAME = 'skerry-names-of-system';
/** ConfigMap by which the leader tells the admission policies the settings of the installation. */
export const SETTINGS_POLICY_NAME = 'skerry-settings';

/** The application of the microservices that are deployed on a machine without a controller; no Application has this name. */
export const LOCAL_APPLICATION = 'skerry-agent';
/** Names that no microservice of that application has: `skerry-agent.<name>` of the bridge zone is the machine's own. */
export const RESERVED_LOCAL_NAMES: readonly string[] = ['default', 'controller'];

/** Suffix of the names under which containers of one bridge network find each other. */
export const BRIDGE_ZONE = 'svc.bridge.local';
/** `<agent_bridge_host>`: the agent's local API as seen from a container; also issuer of its tokens. */
export const AGENT_BRIDGE_HOST = 'skerry-agent.default.svc.bridge.local';
/** `<router_bridge_host>`: the router of the node, which publishes its ports on the machine. */
export const ROUTER_BRIDGE_HOST = `router.default.${BRIDGE_ZONE}`;
/** `<bus_bridge_host>`: the server of the message bus on the node, likewise. */
export const BUS_BRIDGE_HOST = `bus.default.${BRIDGE_ZONE}`;
/** Names of the machine in every container (docs/spec/workloads.md#names-of-the-machine). */
export const BRIDGE_HOSTS = [ROUTER_BRIDGE_HOST, BUS_BRIDGE_HOST, AGENT_BRIDGE_HOST] as const;
/** `iss` of a node token (docs/spec/agent-channel.md#node-token). */
export const NODE_TOKEN_ISSUER = `https://${AGENT_BRIDGE_HOST}`;

/** Request headers of our own agent. The first makes it "our agent". */
export const HEADERS = {
  agent: 'skerry-agent',
  instance: 'skerry-instance',
  boot: 'skerry-boot',
  /** sealed position that the agent has saved; in a response: the one to save (src/agents/pipeline/sealed-position.ts) */
  epochPosition: 'skerry-epoch-position',
  /** how recent the stores must be that a response is made from; in a response: the value to save, opaque to the agent */
  notOlderThan: 'skerry-not-older-than',
  /** in the response to a report: `full` when the controller does not have the former reports */
  reportWanted: 'report-wanted',
  /** of the install script: `none` where the controller has no packages, so that the script only says so */
  packages: 'skerry-packages',
} as const;

/** Registries that exist from the start and cannot be changed or deleted. */
export const BUILT_IN_REGISTRIES = {
  /** the public hub */
  remote: { id: 1, name: 'remote' },
  /** the node's own image cache: nothing is pulled */
  local: { id: 2, name: 'local' },
} as const;

/** Catalog items that exist from the start and cannot be changed or deleted: the images of the system's microservices. */
export const BUILT_IN_CATALOG_ITEMS = {
  router: { id: 1, name: 'router', image: 'quay.io/skupper/skupper-router:3.4.2' },
  bus: { id: 2, name: 'bus', image: 'docker.io/library/nats:2.15.2-alpine' },
  debug: { id: 3, name: 'debug', image: 'docker.io/library/busybox:1.37' },
} as const;
export type SystemItemName = keyof typeof BUILT_IN_CATALOG_ITEMS;
/** Images that an installation names instead of those of its release, by item and architecture. */
export type SystemImages = Partial<Record<SystemItemName, Readonly<Record<number, string>>>>;
/** How the names of the applications of the system on nodes begin. */
export const SYSTEM_APPLICATION_PREFIX = 'system-';
/** The Certificate that the controller itself serves, where it makes its own, and the authority that signs it at first. */
export const CONTROLLER_CERTIFICATE = 'skerry-controller';
export const CONTROLLER_AUTHORITY = 'skerry-controller-ca';
/** The Certificates of the hub of the message bus: between sites, and for devices. */
export const BUS_HUB_CERTIFICATES = { site: 'bus-hub-site', mqtt: 'bus-hub-mqtt' } as const;
/** The Certificates of the default router: for other routers, for clients, and by which the controller is such a client. */
export const ROUTER_HUB_CERTIFICATES = {
  site: 'router-hub-site',
  local: 'router-hub-local',
  agent: 'router-hub-agent',
} as const;
/** The certificates of the system, which the controller alone uses: no microservice can mount their Secrets. */
export const SYSTEM_CERTIFICATES: readonly string[] = [
  CONTROLLER_CERTIFICATE,
  BUS_HUB_CERTIFICATES.site,
  BUS_HUB_CERTIFICATES.mqtt,
  ...Object.values(ROUTER_HUB_CERTIFICATES),
];
/** The authorities of the system, which sign for the controller alone: its own, between sites, and on one machine. */
export const SYSTEM_AUTHORITY = {
  controller: CONTROLLER_AUTHORITY,
  routerSite: 'router-site-ca',
  routerLocal: 'default-router-local-ca',
  busSite: 'bus-site-ca',
  busLocal: 'default-bus-local-ca',
} as const;
export const SYSTEM_AUTHORITIES: readonly string[] = Object.values(SYSTEM_AUTHORITY);
/** How the names of Secrets with the keys of authorities begin. */
export const AUTHORITY_SECRET_PREFIX = 'skerry-ca-';
/** How the names of Secrets with the keys of nodes begin. */
export const PLATFORM_SECRET_PREFIX = 'skerry-platform-';
/** How the names of Secrets with keys of the message bus begin. */
export const BUS_SECRET_PREFIX = 'skerry-bus-';
/** How the names of Secrets of users and logins begin. */
export const IDENTITY_SECRETS = {
  user: 'skerry-user-',
  email: 'skerry-email-',
  artefact: 'skerry-oidc-',
  once: 'skerry-once-',
  keys: 'skerry-identity-keys',
  bootstrap: 'skerry-bootstrap-admin',
} as const;
/** How the names of Secrets begin whose keys the system keeps for itself: none is shareable, and no certificate has such a name. */
export const SYSTEM_SECRET_PREFIXES: readonly string[] = [
  AUTHORITY_SECRET_PREFIX,
  PLATFORM_SECRET_PREFIX,
  BUS_SECRET_PREFIX,
  ...Object.values(IDENTITY_SECRETS),
  'node-key-',
  'provisioning-key-',
];
/** Category of the built-in catalog items. */
export const SYSTEM_CATEGORY = 'SYSTEM';
/** Publisher of the built-in catalog items; no other item may name it. */
export const SYSTEM_PUBLISHER = 'Skerry';

/** The first number that is assigned; lower numbers are reserved for built-in objects. */
export const FIRST_ID = 10;

export const PORTS = { rest: 51121, metrics: 51122, internal: 51123, agent: 54321 } as const;
/** External ports that no microservice may claim: the local API of the agent, the port after it, and DNS. */
export const RESERVED_EXTERNAL_PORTS: readonly number[] = [54321, 54322, 53];

/** Architecture ids of the v3 API (docs/spec/rest-v3.md#architectures); the index is the id. */
export const ARCHITECTURES = ['auto', 'amd64', 'arm64', 'riscv64', 'arm'] as const;
export type Architecture = (typeof ARCHITECTURES)[number];
