/**
 * What a router of the program skupper-router 3.4 can be configured with, as facts: the entities, and the attributes of each. A router ends at
 * its start, or refuses the request, when it is given any other attribute. `version` 3.4.0 and 3.4.2 differ in defaults alone, which are all named.
 */

export interface AttributeForm {
  readonly is: 'text' | 'whole' | 'flag' | 'map' | readonly string[];
  /** what a router has where the attribute is absent; several: by its version. Without one it has nothing. */
  readonly absent?: readonly (string | number | boolean)[];
  readonly isRequired?: boolean;
  /** A request to create the entity cannot set it. */
  readonly isReadOnly?: boolean;
  readonly isUpdatable?: boolean;
  /** it is the name of an entity of this kind */
  readonly refersTo?: EntityKind;
}

export interface EntityForm {
  /** absent: as its kind is called in files */
  readonly fullName?: string;
  /** at most one in a router */
  readonly isSingle?: boolean;
  /** what management can do with it; `log` and others of the start have less */
  readonly operations: readonly ('create' | 'update' | 'delete')[];
  readonly attributes: Readonly<Record<string, AttributeForm>>;
}

export type EntityKind =
  | 'router'
  | 'site'
  | 'sslProfile'
  | 'listener'
  | 'connector'
  | 'tcpListener'
  | 'tcpConnector'
  | 'address'
  | 'autoLink'
  | 'log'
  | 'policy'
  | 'vhost';

/** How the full names of entities begin. */
const TYPE_PREFIX = 'io.skupper.router.';

type More = Omit<AttributeForm, 'is'>;
const text = (more: More = {}): AttributeForm => ({ is: 'text', ...more });
const whole = (more: More = {}): AttributeForm => ({ is: 'whole', ...more });
const flag = (more: More = {}): AttributeForm => ({ is: 'flag', ...more });
const map = (more: More = {}): AttributeForm => ({ is: 'map', ...more });
const oneOf = (values: readonly string[], more: More = {}): AttributeForm => ({ is: values, ...more });
const counter = whole({ isReadOnly: true });

/** Every entity has these besides its own. */
const COMMON = { name: text(), identity: text({ isReadOnly: true }), type: text() };

const MODES = ['standalone', 'interior', 'edge'] as const;
const ROLES = ['normal', 'inter-router', 'route-container', 'edge', 'inter-edge'] as const;
const DISTRIBUTIONS = ['multicast', 'closest', 'balanced', 'unavailable'] as const;
const FAMILIES = ['IPv4', 'IPv6'] as const;
const STRIPPED = ['in', 'out', 'both', 'no'] as const;
const MODULES = [
  ...[
    'ROUTER',
    'ROUTER_CORE',
    'ROUTER_HELLO',
    'ROUTER_LS',
    'ROUTER_MA',
    'MESSAGE',
    'SERVER',
    'AGENT',
    'CONTAINER',
    'ERROR',
  ],
  ...['POLICY', 'HTTP', 'CONN_MGR', 'PYTHON', 'PROTOCOL', 'TCP_ADAPTOR', 'HTTP_ADAPTOR', 'FLOW_LOG', 'ADDRESS_WATCH'],
  ...['HTTP1_OBSERVER', 'HTTP2_OBSERVER', 'HTTP2_DECODER', 'DEFAULT'],
] as const;

/** What both ends of a connection between routers have. */
const CONNECTION = {
  socketAddressFamily: oneOf(FAMILIES),
  role: oneOf(ROLES, { absent: ['normal'] }),
  cost: whole({ absent: [1] }),
  sslProfile: text({ refersTo: 'sslProfile' }),
  saslMechanisms: text(),
  maxFrameSize: whole({ absent: [16_384] }),
  maxSessions: whole({ absent: [32_768] }),
  maxSessionFrames: whole(),
  idleTimeoutSeconds: whole({ absent: [16] }),
  stripAnnotations: oneOf(STRIPPED, { absent: ['both'] }),
  linkCapacity: whole(),
  messageLoggingComponents: text({ absent: ['none'] }),
  policyVhost: text(),
  openProperties: map(),
};

const TRAFFIC = { connectionsOpened: counter, connectionsClosed: counter, bytesIn: counter, bytesOut: counter };

export const ROUTER_SCHEMA: Readonly<Record<EntityKind, EntityForm>> = {
  router: {
    isSingle: true,
    operations: [],
    attributes: {
      ...COMMON,
      id: text(),
      vanId: text(),
      mode: oneOf(MODES, { absent: ['standalone'] }),
      area: text({ isReadOnly: true }),
      version: text({ isReadOnly: true }),
      hostName: text({ isReadOnly: true }),
      helloIntervalSeconds: whole({ absent: [1] }),
      helloMaxAgeSeconds: whole({ absent: [3] }),
      raIntervalSeconds: whole({ absent: [30] }),
      raIntervalFluxSeconds: whole({ absent: [4] }),
      remoteLsMaxAgeSeconds: whole({ absent: [60] }),
      workerThreads: whole({ absent: [4] }),
      debugDumpFile: text(),
      saslConfigDir: text(),
      saslConfigName: text({ absent: ['skrouterd'] }),
      timestampsInUTC: flag(),
      timestampFormat: text(),
      defaultDistribution: oneOf(DISTRIBUTIONS, { absent: ['balanced'] }),
      metadata: text(),
      dataConnectionCount: text({ absent: ['auto'] }),
      dropTcpConnections: flag({ absent: [true] }),
    },
  },
  site: {
    operations: [],
    attributes: {
      ...COMMON,
      location: text(),
      provider: text(),
      version: text(),
      platform: text(),
      namespace: text(),
    },
  },
  sslProfile: {
    operations: ['create', 'update', 'delete'],
    attributes: {
      ...COMMON,
      ciphers: text({ isUpdatable: true }),
      protocols: text({ isUpdatable: true }),
      caCertFile: text({ isUpdatable: true }),
      certFile: text({ isUpdatable: true }),
      privateKeyFile: text({ isUpdatable: true }),
      password: text({ isUpdatable: true }),
      uidFormat: text(),
      uidNameMappingFile: text(),
      ordinal: whole({ isUpdatable: true }),
      oldestValidOrdinal: whole({ isUpdatable: true }),
    },
  },
  listener: {
    operations: ['create', 'delete'],
    attributes: {
      ...COMMON,
      ...CONNECTION,
      host: text({ absent: [''] }),
      port: text({ absent: ['amqp'] }),
      authenticatePeer: flag({ absent: [false] }),
      requireEncryption: flag({ absent: [false] }),
      requireSsl: flag({ absent: [false] }),
      initialHandshakeTimeoutSeconds: whole({ absent: [0] }),
      failoverUrls: text(),
      healthz: flag({ absent: [true] }),
      metrics: flag({ absent: [true] }),
      websockets: flag({ absent: [true] }),
      http: flag({ absent: [false] }),
      httpRootDir: text(),
    },
  },
  connector: {
    operations: ['create', 'delete'],
    attributes: {
      ...COMMON,
      ...CONNECTION,
      host: text({ absent: ['127.0.0.1'] }),
      port: text({ absent: ['amqp'] }),
      allowRedirect: flag({ absent: [true] }),
      verifyHostname: flag({ absent: [true] }),
      saslUsername: text(),
      saslPassword: text(),
      failoverUrls: text({ isReadOnly: true }),
      connectionStatus: text({ isReadOnly: true }),
      connectionMsg: text({ isReadOnly: true }),
    },
  },
  tcpListener: {
    operations: ['create', 'update', 'delete'],
    attributes: {
      ...COMMON,
      address: text(),
      host: text({ absent: ['0.0.0.0', ''] }),
      backlog: whole({ absent: [0] }),
      port: text(),
      siteId: text(),
      sslProfile: text({ refersTo: 'sslProfile' }),
      authenticatePeer: flag({ absent: [false] }),
      observer: oneOf(['none', 'auto', 'http1', 'http2'], { absent: ['auto'], isUpdatable: true }),
      operStatus: oneOf(['up', 'down'], { isReadOnly: true }),
      /** from 3.4.1 on */
      connectionMsg: text({ isReadOnly: true }),
      ...TRAFFIC,
    },
  },
  tcpConnector: {
    operations: ['create', 'delete'],
    attributes: {
      ...COMMON,
      address: text(),
      host: text({ absent: ['127.0.0.1'] }),
      port: text(),
      siteId: text(),
      processId: text(),
      sslProfile: text({ refersTo: 'sslProfile' }),
      verifyHostname: flag({ absent: [true] }),
      ...TRAFFIC,
    },
  },
  address: {
    fullName: 'router.config.address',
    operations: ['create', 'delete'],
    attributes: {
      ...COMMON,
      prefix: text(),
      pattern: text(),
      distribution: oneOf(DISTRIBUTIONS, { absent: ['balanced'] }),
      priority: whole(),
    },
  },
  autoLink: {
    fullName: 'router.config.autoLink',
    operations: ['create', 'delete'],
    attributes: {
      ...COMMON,
      address: text({ isRequired: true }),
      direction: oneOf(['in', 'out'], { isRequired: true }),
      containerId: text(),
      connection: text(),
      externalAddress: text(),
      linkRef: text({ isReadOnly: true }),
      operStatus: oneOf(['inactive', 'attaching', 'failed', 'active', 'quiescing', 'idle'], { isReadOnly: true }),
      lastError: text({ isReadOnly: true }),
    },
  },
  log: {
    operations: ['update'],
    attributes: {
      ...COMMON,
      module: oneOf(MODULES, { isRequired: true }),
      enable: text({ isUpdatable: true }),
      includeTimestamp: flag({ isUpdatable: true }),
      includeSource: flag({ isUpdatable: true }),
      outputFile: text({ isUpdatable: true }),
    },
  },
  policy: {
    isSingle: true,
    operations: [],
    attributes: {
      ...COMMON,
      maxConnections: whole({ absent: [65_535] }),
      maxMessageSize: whole({ absent: [0] }),
      enableVhostPolicy: flag({ absent: [false] }),
      enableVhostNamePatterns: flag({ absent: [false] }),
      policyDir: text({ absent: [''] }),
      defaultVhost: text({ absent: ['$default'] }),
    },
  },
  vhost: {
    operations: ['create', 'update', 'delete'],
    attributes: {
      ...COMMON,
      hostname: text({ isRequired: true }),
      aliases: text({ isUpdatable: true }),
      maxConnections: whole({ absent: [65_535], isUpdatable: true }),
      maxConnectionsPerUser: whole({ absent: [65_535], isUpdatable: true }),
      maxConnectionsPerHost: whole({ absent: [65_535], isUpdatable: true }),
      allowUnknownUser: flag({ absent: [false], isUpdatable: true }),
      groups: map({ isUpdatable: true }),
    },
  },
};

export const isEntityKind = (name: string): name is EntityKind => Object.hasOwn(ROUTER_SCHEMA, name);

/** The name of a kind in requests and answers of management. */
export const typeOfKind = (kind: EntityKind): string => `${TYPE_PREFIX}${ROUTER_SCHEMA[kind].fullName ?? kind}`;
