/**
 * The words of statuses: condition types, reasons, and what each means. Reasons are an API: scripts, alerts and REST
 * clients depend on them. A new reason gets its text here first.
 */

/**
 * Condition types. Ready, Reconciling and Stalled mean what kstatus says: Reconciling and Stalled are abnormal when
 * True; the three are always present, so that `kubectl wait` works on each of them. The others are present only while
 * they are True, except Admitted and those about the parts of the platform of a node.
 */
export const CONDITIONS = {
  Ready: 'Everything is as the spec asks.',
  Reconciling: 'The controller or a node is working towards what the spec asks.',
  Stalled: 'Nothing will change until the object, or something that it names, is changed.',
  Admitted: 'Everything that should run may run as asked; False names what keeps it from running.',
  MayRunElsewhere:
    'A microservice was moved away from a node that was silent or deleted: its container may still run there as well.',
  NotSupportedYet: 'Something is stored but does not act yet; counts neither for Ready nor for platformStatus.',
  DuplicateAgent: 'Two installations report with the identity of this node; neither is wiped.',
  DatastoreRestored:
    'The datastore lacks what the node was sent; the node retains what it runs until an operator accepts the datastore.',
  Updating: 'A change of the version of the agent was requested and is neither confirmed nor given up.',
  UpdateFailed: 'The last change of the version of the agent failed; the version before runs.',
  ActionIgnored:
    'An annotation requests an action that is not carried out: it cannot be read, or its count is not above.',
  TunnelFailed: 'The tunnel of the node was asked for and is not open, for a reason that time alone may not mend.',
  ContentLeftOut:
    'Models, knowledge or volume mounts that the node is to have do not fit; the others come before them.',
  CertificatesReady: 'The machine has the present certificates of its platform; absent where the node needs none.',
  RouterReady: 'The router of the node runs with what it needs; absent where the node has none.',
  BusReady: 'The bus server of the node runs with what it needs; absent where the node has none.',
  CredentialsOutdated:
    'Users hold credentials that a former key of their account signed: they end by an order, or at a number of revocations.',
  RuleMissing: 'A rule of the message bus that the object names does not exist: a built-in rule limits instead.',
  Connected: 'The router that reaches the backend of a service has its connector.',
  Listening: 'A router listens for the service; the message has how many of how many do.',
  Reachable: 'A client of the default router reaches a server of the service; present with SKERRY_DIAL_SERVICES alone.',
  MayLogIn:
    'The user logs in with what it has; False says what keeps it from that. Absent while logins are off. It changes once a minute at most, and four times at once.',
  SettingsRefused:
    'Settings of the spec are not in force: the machine keeps its own, or they name nodes that cannot be what they are named as.',
} as const;
export type ConditionType = keyof typeof CONDITIONS;

/** Why a microservice may not run as asked (verdicts), each reason with its documentation. */
export const VERDICT_REASONS = {
  NotUsed: 'The installation uses one object of this kind, which has another name.',
  NameTaken: 'The v3 name belongs to another object: one of the system, else the older one.',
  UuidTaken: 'The uuid belongs to another object: one of the system, else the one whose status recorded it first.',
  IdTaken: 'The id that the spec asks for belongs to another object; this one was given another.',
  NodeNotSet: 'The microservice names no node.',
  NodeNotFound:
    'The node that the microservice names, a node that the object is linked to, or a router or bus server that a node names does not exist.',
  RouterWrongMode: 'A router that a node names accepts no connections of others.',
  BusServerWrongMode: 'A bus server that a node names accepts no connections of others.',
  NodeDeleting: 'The node that the microservice names is being deleted.',
  MovingFromNode: 'The node that the microservice was moved from has not reported yet that it stopped it.',
  NodeFull: 'The node has as many microservices as the desired state of a node can hold.',
  NodeModelsFull: 'The node has as many models as a node can have, all of which come before this one.',
  NodeKnowledgeFull: 'The node has as much knowledge as a node can have, all of which comes before this one.',
  ImageMissing: "The microservice has no image for its node's architecture.",
  CatalogItemNotFound: 'The catalog item that the microservice names does not exist.',
  PublisherReserved: 'The publisher of a catalog item is reserved for the items of the system.',
  RegistryNotFound: 'The registry that the object names does not exist.',
  RegistryNotReady: 'The registry that the object names has no id yet.',
  CaInvalid: 'The CA of a registry is no PEM bundle in base64.',
  RegistryWrongType: 'The registry that the object names holds no container images.',
  ModelNotFound: 'A model that the microservice binds does not exist.',
  ModelNotReady: 'A model that the microservice binds cannot be pulled; its own condition Ready says why.',
  KnowledgeNotFound: 'A knowledge that the microservice binds does not exist.',
  KnowledgeNotReady: 'A knowledge that the microservice binds cannot be pulled; its own condition Ready says why.',
  FilesRequired: 'A model of a hub names no files to pull.',
  FilesForbidden: 'Files are named although an artifact of a registry of type oci is pulled as a whole.',
  BindPathInvalid: 'The path at which models or knowledge appear in the container has a wrong form.',
  SystemMicroservice: 'A microservice of a system application has something that only those of users may have.',
  RuntimeClassNotFound: 'The runtime class that the microservice names does not exist.',
  RuntimeNotAvailable:
    'The runtime that a runtime class means is not on the node of the microservice, or not on a node that the class is linked to.',
  TemplateNotFound: 'The template that the object names does not exist.',
  TemplateInvalid:
    'The template that the object names cannot be rendered: a variable without a value or one that the template does not have, an expression that fails, or a result that is not valid. Of a template itself: an expression in it cannot be read.',
  TemplateConflict: 'Something else sets what the template would set, to another value.',
  TemplateNotRendered: 'The template that the application or the microservice names is being rendered.',
  RoleNotFound: 'The role that a microservice or a service account names does not exist.',
  ApplicationNotFound: 'The application that a service account names does not exist.',
  ServiceInvalid:
    'A service has a reserved or illegal name, a bridge or host that its type has not, or no servicePort or clusterType in a cluster.',
  MicroserviceNotFound: 'The microservice that a service names does not exist.',
  RouterNone:
    'The node with the backend of a service has no router: its routerMode is none, or the microservice has no node.',
  BridgeNotConnected:
    'The defaultBridge of a service is no interior router that the router of the backend connects to.',
  BusHubInvalid: 'Two ports of the hub of the message bus are the same, or a size is none.',
  RouterHubInvalid: 'Two ports of the default router are the same, or one is a port that it has for something else.',
  BusAccessNotGranted: 'A microservice asks for access to the message bus, and its application has none.',
  BusNotReachable: 'A microservice has access to the message bus, and there is no server on its node, and no hub.',
  BusRuleInvalid: 'Members of a rule of the message bus say what no bus server accepts.',
  PortReserved: 'An external port is reserved on every node.',
  PortTaken: 'An external port is held by another microservice on the node.',
  SecretNotFound: 'A Secret that an env variable or a volume mount names does not exist or is not shareable.',
  SecretKeyNotFound: 'A Secret lacks the key that an env variable names.',
  ConfigMapNotFound: 'A ConfigMap that an env variable or a volume mount names does not exist or is not shareable.',
  ConfigMapKeyNotFound: 'A ConfigMap lacks the key that an env variable names.',
  HostTemplateInvalid: 'An extra host address is neither an IP address nor one of the known expressions.',
  HostNotFound: 'An extra host address names a node or microservice that does not exist here, or has no address.',
  ReservedAnnotation: 'An annotation has the reserved prefix.',
  ReservedEnv: 'An env variable has the prefix that is reserved for the agent.',
  ConfigTooLarge: 'The config of the microservice is larger than 64 KiB.',
  VolumeInvalid: 'A volume name, a bind path or the reference to a volume mount has a wrong form.',
  VolumeMountNotFound: 'The volume mount that a volume names does not exist.',
  VolumeMountKeyNotFound: 'The content of a volume mount has neither the key nor keys below it.',
  VolumeMountInvalid: 'The content of a volume mount cannot become files.',
  VolumeMountsTooLarge:
    'The volume mounts of the node have more content than a node gets; those that fit come before this one.',
  HostInvalid: 'A host of a certificate is neither a host name nor an IP address, or there are too many.',
  ExpirationInvalid: 'The life of a certificate or of an authority is shorter than an hour.',
  AuthorityNotFound:
    'Nothing has the name of the authority that a certificate names: no CertificateAuthority and no shareable Secret.',
  AuthorityInvalid: 'A Secret has no key with its certificate of an authority.',
  AuthorityExpired: 'The certificate of the authority has expired.',
  AuthorityNotReady:
    'A certificate or an authority has no certificate yet, or the authority that it names has none; its own condition Ready says why.',
  CertificateExpired: 'The certificate has expired and could not be renewed.',
  NameReserved: 'The name of a certificate would be the name of a Secret of the system.',
  AuthorityOfSystem: 'The authority that a certificate names signs for the controller alone.',
  NotOnControlPlane:
    'The setting or the object exists on another control plane alone (CONTROL_PLANE of the controller).',
  SecretTaken: 'The Secret that would have the key and the certificate exists and belongs to something else.',
  PathCollision: 'Two mounts of the microservice have the same path in the container.',
} as const;
export type VerdictReason = keyof typeof VERDICT_REASONS;

/** The reasons of conditions that are not verdicts. */
export const STATUS_REASONS = {
  // Application
  AllRunning: 'Every microservice that should run is running as asked.',
  Stopped: 'Nothing should run, and nothing does.',
  Empty: 'The application has no microservices.',
  Admitted: 'Everything that should run may run.',
  Starting:
    'A microservice is being queued, pulled, created or started, its health check has not succeeded yet, or it has not run for its minReadySeconds yet.',
  Updating: 'A node runs an older revision of a microservice.',
  Stopping: 'A microservice that should not run still does.',
  Removing: 'A removed microservice still runs.',
  FormerNodeGone:
    'The node that a microservice was moved from no longer exists, and never reported that it stopped it.',
  Unhealthy: 'The health check of a microservice fails; the message has its exit code and output.',
  ImagePullFailed: 'The image of a microservice could not be pulled or is not on its node; the node keeps trying.',
  LimitRefused:
    'The container engine refuses a limit of a microservice: memory, CPUs, processes; its node keeps trying.',
  CreateFailed: 'The container engine could not create the container of a microservice; its node keeps trying.',
  StartFailed: 'The container of a microservice could not be started; its node keeps trying.',
  DiskFull: 'The disk of a node is full, so that a microservice could not be pulled, created or started.',
  ArtifactFailed: 'A model or knowledge that a microservice binds could not be pulled; its node keeps trying.',
  MicroserviceFailed:
    'A microservice could not be started, for a reason that its node does not name or that has no word of its own; its node keeps trying.',
  Restarting: 'A microservice exited, or was restarted on its machine, and is being started again.',
  CrashLooping:
    'A microservice exits repeatedly; its node retries with growing pauses. Also while one runs that exited twice within a minute and has not run for a minute since.',
  PolicyRefused: "The machine's own policy refuses a microservice.",
  StoppedLocally: 'A microservice was stopped on its machine.',
  StateUnknown: 'A live node cannot determine the state of a microservice.',
  Fields: 'Fields that are stored do not act yet.',
  NoSuchCount: 'The annotation of an action has no count, or one that was requested before.',
  NotOpenOrClose: 'The annotation of the tunnel says neither open nor close.',
  // EdgeNode
  AgentRunning: 'The agent is live and runs.',
  AgentWarning: 'The agent is live and has a warning.',
  AgentStarting: 'The agent is starting.',
  EngineUnavailable: 'The agent is live and cannot reach its container engine: what runs there is unknown.',
  AgentNotRunning: 'The agent is live and says that it does not run.',
  NotProvisioned: 'No agent has taken the identity of the node yet.',
  Deprovisioned: 'The agent gave up the identity of this node.',
  NodeUnreachable: 'The node has been silent for longer than its limit.',
  DuplicateAgent: 'Two installations report with the identity of this node.',
  DatastoreRestored:
    'The datastore was restored from a backup, or is another one, since the node was last sent its desired state.',
  BusServerBehind: 'The running bus server of the machine does not have all present tokens and settings yet.',
  BusServerRefuses:
    'The running bus server of the machine refuses a token or its configuration; the message has its words.',
  BusNotSetUp: 'The controller has not made what the bus server of the node needs, such as the operator or an account.',
  TooManyInteriorRouters:
    'The network of routers has as many interior routers as it can have, and so the node has no router: others come before it.',
  BusTooManyAccounts:
    'The machine has no room for all accounts of its bus server. The message names the accounts without a link or token; the others work.',
  RouterBehind: 'The running router of the machine does not have its present configuration and certificates yet.',
  RouterRefuses: 'The running router of the machine refuses a part of its configuration; the message has its words.',
  OnMachine: 'The machine reports that it has what this part of its platform needs.',
  FilesPending: 'The machine does not report the present files of the system yet.',
  FilesFailed: 'The machine cannot keep the files of the system.',
  MachineDecides: 'The setting belongs to the machine.',
  UpdateRequested: 'The agent has not taken up the requested change of its version.',
  Downloading: 'The agent fetches the release, or has fetched it and starts again.',
  UpdateRetrying: 'An attempt to change the version failed; the agent tries again.',
  OnTrial: 'The release runs and stays once a report of it is confirmed.',
  UpdateFailed:
    'The agent gave the release up, or the machine went back to the version before; it waits for another request.',
  TunnelNotConfigured: 'The installation has no ssh server for tunnels, or its Secret lacks what machines need.',
  TunnelPortsUsedUp: 'Every port that tunnels may have belongs to another node.',
  TunnelNotOpen: 'The machine cannot open the tunnel, or its policy forbids it; it keeps trying.',
  // Registry
  Usable: 'The registry can be used.',
  // RouterHub
  RouterHubTaken: 'An object that the default router would have in the cluster exists and belongs to something else.',
  RouterHubPending: 'The certificates of the default router are being made.',
  RouterHubBehind: 'The running default router lacks services, or cannot be reached; the message has what it says.',
  // BusOperator, BusAccount, BusUser
  BusHubTaken:
    'An object that the hub of the message bus would have in the cluster exists and belongs to something else.',
  BusHubKeyLost:
    'The key with which the hub of the message bus encrypts streams is lost, and its members still have it: nothing of them is changed.',
  BusHubMoves:
    'Nodes get another address of the hub one after the other; containers that reach the hub directly are replaced.',
  BusServersBehind:
    'Servers of the hub of the message bus lack tokens or cannot be reached; they get them once they can.',
  BusDisabled: 'The message bus is off: BUS_ENABLED of the controller is not true.',
  BusKeyPending: 'The key of the operator, the account or the user of the message bus is being made.',
  FormerKeyTrusted: 'The account trusts a former key until users have fetched credentials that its present key signed.',
  BusOperatorRotating:
    'The operator of the message bus gets another key: servers learn it, then all accounts are signed again.',
  BusAccountNotFound: 'The account that a user of the message bus belongs to does not exist.',
  BusMqttNotPossible:
    'The rule of the account lets no user of MQTT in: it gives no store, or forbids tokens that are passwords.',
  BusRuleNotFound: 'There is no rule of the message bus of the name that the object has.',
  BusUserOfSystem:
    'The user has a place of the system on the message bus, such as in the account of its servers, and the controller did not make it.',
  BusUserExpired: 'The token of a user of the message bus has ended.',
  // AuthUser
  GroupNotFound: 'The user is in groups that do not exist, which give it nothing.',
  EmailTaken: 'The e-mail of the user belongs to another user, or did so within the last hour.',
  RoleBindingRefused:
    'The controller may not change a role binding that names the user, such as a binding to a role of the cluster: a cluster admin changes it.',
  LoginPermitted: 'The user may log in.',
  PasswordMissing: 'The user has no password: an administrator gives it one.',
  Locked: 'Too many attempts failed: nothing is compared until the time of the policy has passed.',
  MfaEnrollmentRequired: 'A group of the user asks for a second factor, which it has not enrolled.',
  PasswordChangeRequired: 'The user has to change its password before anything else is open.',
  // Service
  RoutersDisabled: 'Routers and services are off: ROUTERS_ENABLED of the controller is not true.',
  BridgePortsUsedUp: 'Every port that services may have belongs to another service.',
  BridgePortPending: 'The port under which routers listen for the service is being written down.',
  AddressPending: 'The cluster has given the load balancer of the service no address yet.',
  ProvisioningFailed: 'An attempt to make the service in the hub or the cluster failed; the message has the reason.',
  RouterHubFull:
    'The configuration of the default router has no room for the service: a ConfigMap has at most a mebibyte.',
  HubPending: 'The router of the hub does not have the present ends of the service yet.',
  RouterHasConnector: 'The router that reaches the backend has the connector of the service.',
  NoConnector: 'The router that reaches the backend lacks the connector of the service.',
  NodeSilent: 'The node with the backend of a service is silent: what its router has is unknown.',
  RoutersListen: 'Routers listen for the service.',
  NoListener: 'No router listens for the service.',
  ListenerPortTaken: 'No router listens for the service, since its port is taken where one should.',
  BackendAnswers: 'The controller dialed the service at the default router, and a server accepted.',
  DialRefused: 'The controller dialed the service at the default router, which does not listen for it.',
  DialTimeout: 'The controller dialed the service at the default router, and nothing answered.',
  DialClosed:
    'The controller dialed the service at the default router, which accepted and closed at once: no server answers.',
  DialFailed: 'The controller could not dial the default router; the message has the reason.',
  PasswordNotFound: 'No Secret of that name has the password, or it may not be sent to this registry.',
  IdNotAssigned: 'The registry has no id yet.',
  // all
  Deleting: 'The object is being deleted.',
  StatusRefused: 'The API server refuses the status of the object, so that the former one may no longer be true.',
  Idle: 'There is nothing to do.',
  NotStalled: 'Nothing waits for a change of the object.',
} as const;
type StatusReason = keyof typeof STATUS_REASONS;

export type Reason = VerdictReason | StatusReason;

/** The reasons of events that are not about a condition. All other events have the reason of the condition that changed. */
export const EVENT_REASONS = {
  AgentVersionChanged: 'The agent of the node has another version.',
  MassSilence: 'So many nodes fell silent at once that the controller, its network or its clock is suspected first.',
  MassSilenceOver: 'The nodes of a mass silence send again, or are marked as silent.',
  SessionBegan: 'A user opened a terminal or a log.',
  SessionEnded: 'A terminal or a log of a user ended; the note says after how long, and why.',
} as const;
export type EventReason = Reason | keyof typeof EVENT_REASONS;
