import { createPublicKey, randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { z } from 'zod';
import { BOUNDS } from './api/bounds.ts';
import {
  ARCHITECTURES,
  BUILT_IN_CATALOG_ITEMS,
  CONTROL_PLANES,
  type ControlPlane,
  DEFAULT_INSTALLATION,
  DEFAULT_NAMESPACE,
  GROUP,
  PORTS,
  SERVICE_TAG,
  type SystemImages,
  type SystemItemName,
} from './api/names.ts';
import { imageReference } from './api/v3/microservice.ts';
import { type BudgetSettings, DEFAULT_BUDGETS } from './rules/budget.ts';
import type { HubServersOptions } from './rules/bus-hub.ts';
import type { RouterHubOptions } from './rules/router-hub.ts';
import type { ServiceSettings } from './rules/service-settings.ts';
import type { TunnelSettings } from './rules/tunnel.ts';
import type { RelaySettings } from './sessions/configured-relay.ts';
import { type AuthSettings, authEnvironment, authOf } from './settings/auth.ts';
import { type TlsSettings, tlsEnvironment, tlsOf } from './settings/tls.ts';
import {
  amountVariable,
  ConfigError,
  flagVariable,
  flagVariableOf,
  listed,
  port,
  textVariable,
} from './settings/values.ts';
import { SESSIONS_PER_USER } from './wire/sessions.ts';
import { TUNNEL_HOST, TUNNEL_USERNAME } from './wire/tunnel.ts';

/**
 * Environment -> Config: a pure function that reports all errors at once. Names and defaults follow those of v3 where it
 * has them; new ones start with SKERRY_.
 */
/** `host` or `host:port`, several of them with commas; IPv6 in brackets. */
const hosts = z.string().transform((text, context) =>
  listed(text).map((one) => {
    const url = URL.parse(`amqps://${one}`);
    if (url && url.host !== '' && url.pathname === '' && !url.username)
      return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || AMQPS_PORT) };
    context.addIssue(`"${one}" is no host or host:port`);
    return z.NEVER;
  }),
);
const busUrls = z.string().transform((text, context) => {
  const isUrl = (one: string) => /^(nats|tls):\/\/[^/@]+$/.test(one);
  if (listed(text).every(isUrl)) return listed(text);
  context.addIssue('has to be nats://host:port or tls://host:port, several of them with commas');
  return z.NEVER;
});
const AMQPS_PORT = 5671;

/** `host`, `host:port` or `[IPv6]:port` of an ssh server. */
const sshServer = z.string().transform((text, context) => {
  const [, v6, name, given = '22'] = /^(?:\[([^\]]{1,45})\]|([^:[\]]{1,253}))(?::([0-9]{1,5}))?$/.exec(text) ?? [];
  const host = v6 ?? name ?? '';
  if (TUNNEL_HOST.test(host) && Number(given) >= 1 && Number(given) <= 65_535) return { host, port: Number(given) };
  context.addIssue('has to be host, host:port or [IPv6]:port');
  return z.NEVER;
});
/** `first-last`, both included. */
const portRange = z.string().transform((text, context) => {
  const [, first, last] = (/^([0-9]{1,5})-([0-9]{1,5})$/.exec(text) ?? []).map(Number);
  if (first !== undefined && last !== undefined && first >= 1 && first <= last && last <= 65_535)
    return { first, last };
  context.addIssue('has to be two ports, first-last, such as 2000-10000');
  return z.NEVER;
});
/** The value of a label of Kubernetes, not empty. */
const labelValue = z
  .string()
  .max(63, 'has to be a label value: at most 63 characters')
  .regex(
    /^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/,
    'has to be a label value: letters, digits, "-", "_" and ".", with a letter or digit at both ends',
  );
/** The part of a key of a label before the slash. */
const labelDomain = z
  .string()
  .max(253, 'has to be a DNS name: at most 253 characters')
  .regex(
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$/,
    'has to be a DNS name of lower-case letters, digits, "-" and ".", such as example.com',
  );
const controlPlane = z.string().transform((text, context): ControlPlane => {
  const known = CONTROL_PLANES.find((one) => one === text.toLowerCase());
  if (known) return known;
  context.addIssue(
    text.toLowerCase() === 'local'
      ? 'there is no controller inside of an agent: use kubernetes, or remote for a controller outside of the cluster'
      : `has to be ${CONTROL_PLANES.join(' or ')}`,
  );
  return z.NEVER;
});

/** Whether nothing but this machine is between here and there. */
const isLoopback = (url: string) => /^(127(\.\d+){3}|localhost|\[::1\])$/.test(URL.parse(url)?.hostname ?? '');

function isReleaseKey(pem: string): boolean {
  try {
    return createPublicKey(pem).asymmetricKeyType === 'ed25519';
  } catch {
    return false;
  }
}

/** Images of the items of the system: `ROUTER_IMAGE_1` for amd64 and so on, by the ids of architectures. */
const SYSTEM_IMAGES = Object.values(BUILT_IN_CATALOG_ITEMS).flatMap(({ name }) =>
  ARCHITECTURES.slice(1).map((arch, index) => {
    const archId = index + 1;
    return { name, arch, archId, variable: `${name.toUpperCase()}_IMAGE_${archId}` };
  }),
);

const imageEnvironment = z.object(
  Object.fromEntries(
    SYSTEM_IMAGES.map(({ name, arch, variable }) => [
      variable,
      imageReference
        .optional()
        .describe(`Image of the catalog item ${name} on ${arch}, instead of the image of the release.`),
    ]),
  ),
);

const environment = z.object({
  CONTROLLER_NAMESPACE: z
    .string()
    .min(1)
    .default(DEFAULT_NAMESPACE)
    .describe('Namespace of everything the controller keeps.'),
  CONTROLLER_NAME: labelValue
    .default(DEFAULT_INSTALLATION)
    .describe('Name of the installation, the same at all its replicas: a label value.'),
  POD_NAME: z
    .string()
    .max(253, 'has to be the name of a pod: at most 253 characters')
    .optional()
    .describe("Name of this replica, the pod's; else the name of the host and a random part."),
  CONTROL_PLANE: controlPlane
    .default('kubernetes')
    .describe(
      'Where the controller runs: kubernetes (in the cluster), or remote (outside), which has nodes of the system.',
    ),
  APP_LABEL: labelValue
    .default(DEFAULT_INSTALLATION)
    .describe('Label app.kubernetes.io/name of what the controller makes in the cluster.'),
  COMPONENT_LABEL_DOMAIN: labelDomain
    .default(GROUP)
    .describe('Domain of the label <domain>/component of what the controller makes in the cluster.'),
  CONTROLLER_PUBLIC_URL: z
    .url()
    .optional()
    .describe('URL under which agents reach the controller; tokens for another audience are then refused.'),
  SERVER_HOST: z.string().default('0.0.0.0').describe('Address that REST and agent routes listen on.'),
  SERVER_PORT: port(PORTS.rest).describe('Port of REST and agent routes.'),
  METRICS_PORT: port(PORTS.metrics).describe('Port of /metrics, /healthz and /readyz.'),
  INTERNAL_PORT: port(PORTS.internal).describe('Port on which replicas talk to the leader.'),
  SKERRY_INTERNAL_ADDRESS: textVariable(
    "Address (host or host:port) under which other replicas reach this one; the pod's IP.",
  ),
  LOG_LEVEL: z
    .enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'])
    .default('info')
    .describe('Least level that is logged.'),
  ...tlsEnvironment.shape,
  TRUST_PROXY: flagVariable.describe('Whether X-Forwarded-For of a proxy in front is believed.'),
  WS_REPLICA_MAX_CONCURRENT_WS: amountVariable(500, 50_000).describe(
    'Sockets of exec and log sessions that users can have open at this replica.',
  ),
  SKERRY_BUDGET_CONTENT_MIB: amountVariable(DEFAULT_BUDGETS.contentMiB, 65_536).describe(
    'MiB of Secrets and ConfigMaps that users store.',
  ),
  SKERRY_BUDGET_OBJECTS_MIB: amountVariable(DEFAULT_BUDGETS.objectsMiB, 65_536).describe(
    'MiB of nodes, applications, templates and other objects that users store.',
  ),
  SKERRY_BUDGET_COUNT: amountVariable(DEFAULT_BUDGETS.count, 10_000_000).describe('Number of all these objects.'),
  SKERRY_BUDGET_USER_PERCENT: amountVariable(DEFAULT_BUDGETS.userPercent, 100).describe(
    'Percent of each of these budgets that one user of REST may use.',
  ),
  SKERRY_SOCKETS_OF_USER: amountVariable(32, 50_000).describe(
    'Sockets of exec and log sessions that one user can have open at this replica.',
  ),
  SKERRY_SESSIONS_OF_USER: amountVariable(SESSIONS_PER_USER, 1_000).describe(
    'Exec and log sessions that one user can have at once on one node.',
  ),
  EVENT_AUDIT_ENABLED: flagVariableOf('true').describe(
    'Whether requests that change something are recorded in the audit log.',
  ),
  EVENT_CAPTURE_IP_ADDRESS: flagVariableOf('true').describe('Whether the audit log has the addresses of clients.'),
  SKERRY_RELEASES_URL: z
    .url({ protocol: /^https?$/ })
    .max(BOUNDS.url)
    // Machines install as root what the list of packages there names; without SKERRY_RELEASES_KEY no signature is checked.
    .refine((url) => url.startsWith('https:') || isLoopback(url), 'has to begin with https://')
    .optional()
    .describe('URL (https) below which agents find releases of themselves; without it no agent can be upgraded.'),
  SKERRY_RELEASES_DIR: textVariable('Folder with these releases, which the controller then serves at /releases.'),
  SKERRY_RELEASES_KEY: z
    .string()
    .refine(isReleaseKey, 'has to be an Ed25519 public key (PEM)')
    .optional()
    .describe(
      'Public keys (PEM) of releases: the install script then comes only from a list that one of them has signed.',
    ),
  TUNNEL_HOST: sshServer
    .optional()
    .describe('ssh server over which machines open tunnels, as machines reach it: host, host:port or [IPv6]:port.'),
  TUNNEL_USERNAME: z
    .string()
    .regex(TUNNEL_USERNAME, 'has to be a user name of letters, digits, _ . @ and -, without a leading dash')
    .optional()
    .describe('User of the ssh server as whom machines log in.'),
  TUNNEL_PORT_RANGE: portRange
    .default({ first: 2000, last: 10_000 })
    .describe('Ports of the ssh server that tunnels may have, first-last; 2000-10000 when unset.'),
  TUNNEL_LOCAL_PORT: z.coerce
    .number()
    .int()
    .min(1)
    .max(65_535)
    .default(22)
    .describe('Port of the machines that tunnels lead to.'),
  SKERRY_TUNNEL_SECRET: textVariable(
    'Secret of the namespace with what machines log in with: rsaKey (a private key) or password, and knownHosts.',
  ),
  BUS_ENABLED: flagVariable.describe(
    'The message bus: accounts and users for applications that ask for it, and a bus server on nodes without a busMode.',
  ),
  BUS_HUB_REPLICAS: z.coerce
    .number()
    .int()
    .min(0)
    .max(5)
    .default(0)
    .describe('Servers of the hub of the message bus that the controller makes in this cluster; 0: it is elsewhere.'),
  BUS_HUB_IMAGE: textVariable(
    'Image of these servers; the image of the catalog item bus, of architecture 1, when unset.',
  ),
  BUS_HUB_SERVICE_TYPE: z
    .enum(['ClusterIP', 'NodePort', 'LoadBalancer'])
    .default('ClusterIP')
    .describe('Type of the Service by which nodes reach these servers.'),
  BUS_HUB_STORAGE_CLASS: textVariable('Storage class of these servers; the default class of the cluster when unset.'),
  ROUTERS_ENABLED: flagVariable.describe(
    'Routers and services: a router on nodes whose routerMode asks for one, and TCP ports that clients reach through the routers.',
  ),
  ROUTER_HUB: flagVariable.describe(
    'Whether the controller makes the default router in this cluster; else it is elsewhere.',
  ),
  ROUTER_HUB_IMAGE: textVariable(
    'Image of the default router; the image of the catalog item router, of architecture 1, when unset.',
  ),
  ROUTER_HUB_SERVICE_TYPE: z
    .enum(['ClusterIP', 'NodePort', 'LoadBalancer'])
    .default('ClusterIP')
    .describe('Type of the Service by which routers of nodes reach the default router.'),
  BRIDGE_PORTS_RANGE: portRange
    .default({ first: 10_024, last: 65_535 })
    .describe('Ports under which routers listen for services, first-last; 10024-65535 when unset.'),
  SERVICE_ANNOTATION_TAG: z
    .string()
    .trim()
    .min(1)
    .max(128)
    .regex(/^[^:]*$/, 'has to be text without a colon')
    .default(SERVICE_TAG)
    .describe('What tags of nodes begin with that select services, before a colon and the token.'),
  SKERRY_DIAL_SERVICES: flagVariable.describe(
    'Whether the controller dials each service at the default router and says in the condition Reachable whether a server answers. Servers see connections that send nothing.',
  ),
  SKERRY_RELAY_DEFAULT_ROUTER: flagVariable.describe(
    'Whether replicas pass sessions on over the default router, with a certificate of the platform; needs ROUTERS_ENABLED.',
  ),
  SKERRY_RELAY_ROUTER: hosts
    .optional()
    .describe('Router (AMQP 1.0) over which replicas pass sessions on: hosts, each with :port unless it is 5671.'),
  SKERRY_RELAY_ROUTER_CERTIFICATES: textVariable(
    'Folder with ca.crt, tls.crt and tls.key for the router; without it no TLS.',
  ),
  SKERRY_RELAY_BUS: busUrls
    .optional()
    .describe('Message bus over which replicas pass sessions on, instead of the router: nats:// or tls:// URLs.'),
  SKERRY_RELAY_BUS_CREDENTIALS: textVariable('File with the credentials of the account controller of the bus.'),
  WS_HA_CROSS_REPLICA_REQUIRES_AMQP: flagVariableOf('true').describe(
    'Whether sessions between replicas need the router or bus that is configured; else they may use the internal port.',
  ),
  WS_HA_FAIL_FAST_ON_ROUTER_UNAVAILABLE: flagVariableOf('true').describe(
    'Whether a terminal ends with 1013 when the router or bus is away and there are other replicas.',
  ),
  ...authEnvironment.shape,
  SKERRY_TOKEN_AUDIENCE: z
    .string()
    .default('skerry')
    .describe('Audience of ServiceAccount tokens for REST; empty accepts those for the API server itself.'),
  KUBECONFIG: textVariable('kubeconfig file; the service account of the pod when unset.'),
});

export interface Config {
  namespace: string;
  /** name of this replica, unique per process */
  identity: string;
  /** the same at all replicas: a name, and labels of what the controller makes in the cluster */
  installation: { name: string; appLabel: string; componentDomain: string };
  controlPlane: ControlPlane;
  publicUrl?: string;
  server: {
    host: string;
    port: number;
    trustProxy: boolean;
    tls?: TlsSettings;
  };
  metricsPort: number;
  internal: { port: number; address?: string };
  /** sockets that users can have open at this replica */
  mostSockets: number;
  /** what users may store */
  budgets: BudgetSettings;
  /** bounds of one user: sockets that are open at this replica, and sessions on one node */
  ofUser: { sockets: number; sessions: number };
  audit: { isEnabled: boolean; recordsAddresses: boolean };
  logLevel: string;
  tokenAudience?: string;
  kubeconfigFile?: string;
  releasesUrl?: string;
  /** the ssh server of tunnels */
  tunnel?: TunnelSettings;
  /** served at /releases */
  releasesFolder?: string;
  /** public keys, PEM */
  releasesKey?: string;
  systemImages: SystemImages;
  /** nodes without a busMode are leaves of the bus */
  isBusEnabled: boolean;
  /** routers and services act */
  hasRouters: boolean;
  /** the default router that the controller makes; absent: it is elsewhere */
  routerHub?: RouterHubOptions;
  services: ServiceSettings;
  /** the servers of the hub of the bus that the controller makes; absent: the hub is elsewhere */
  hub?: HubServersOptions;
  /** what is between the replicas for sessions; the internal port when neither is configured */
  relay: RelaySettings;
  auth: AuthSettings;
  /** what the environment asks for and this version does not do, for the log */
  warnings: readonly string[];
}

/** Variables whose values no error shows. */
const SECRET_VARIABLES: ReadonlySet<string> = new Set([
  'TLS_BASE64_KEY',
  'OIDC_CLIENT_SECRET',
  'OIDC_BOOTSTRAP_ADMIN_PASSWORD',
  'AUTH_SESSION_SECRET',
  'OIDC_COOKIE_KEYS',
]);

export function readConfig(env: Readonly<Record<string, string | undefined>>): Config {
  const given = Object.fromEntries(Object.entries(env).filter(([, value]) => value !== ''));
  const parsed = environment.safeParse(given);
  const images = imageEnvironment.safeParse(given);
  const issues = [...(parsed.error?.issues ?? []), ...(images.error?.issues ?? [])];
  const problems = issues.map((issue) => {
    const name = String(issue.path[0]);
    return `${name}${SECRET_VARIABLES.has(name) ? '' : `="${env[name] ?? ''}"`}: ${issue.message}`;
  });
  if (!parsed.success || !images.success)
    throw new ConfigError(`the environment is not usable:\n  ${problems.join('\n  ')}`);
  const e = parsed.data;
  const tls = tlsOf(e);
  return {
    namespace: e.CONTROLLER_NAMESPACE,
    identity: e.POD_NAME ?? `${hostname()}-${randomUUID().slice(0, 8)}`,
    installation: { name: e.CONTROLLER_NAME, appLabel: e.APP_LABEL, componentDomain: e.COMPONENT_LABEL_DOMAIN },
    controlPlane: e.CONTROL_PLANE,
    ...(e.CONTROLLER_PUBLIC_URL && { publicUrl: e.CONTROLLER_PUBLIC_URL }),
    server: {
      host: e.SERVER_HOST,
      port: e.SERVER_PORT,
      trustProxy: e.TRUST_PROXY,
      ...(tls && { tls }),
    },
    metricsPort: e.METRICS_PORT,
    internal: { port: e.INTERNAL_PORT, ...(e.SKERRY_INTERNAL_ADDRESS && { address: e.SKERRY_INTERNAL_ADDRESS }) },
    mostSockets: e.WS_REPLICA_MAX_CONCURRENT_WS,
    budgets: {
      contentMiB: e.SKERRY_BUDGET_CONTENT_MIB,
      objectsMiB: e.SKERRY_BUDGET_OBJECTS_MIB,
      count: e.SKERRY_BUDGET_COUNT,
      userPercent: e.SKERRY_BUDGET_USER_PERCENT,
    },
    ofUser: { sockets: e.SKERRY_SOCKETS_OF_USER, sessions: e.SKERRY_SESSIONS_OF_USER },
    audit: { isEnabled: e.EVENT_AUDIT_ENABLED, recordsAddresses: e.EVENT_CAPTURE_IP_ADDRESS },
    logLevel: e.LOG_LEVEL,
    ...(env.SKERRY_TOKEN_AUDIENCE !== '' && { tokenAudience: e.SKERRY_TOKEN_AUDIENCE }),
    ...(e.KUBECONFIG && { kubeconfigFile: e.KUBECONFIG }),
    ...releasesOf(e),
    ...(e.SKERRY_RELEASES_KEY && { releasesKey: e.SKERRY_RELEASES_KEY }),
    systemImages: systemImagesOf(images.data),
    ...tunnelOf(e),
    isBusEnabled: e.BUS_ENABLED,
    hasRouters: e.ROUTERS_ENABLED,
    ...routerHubOf(e, systemImagesOf(images.data)),
    services: {
      isEnabled: e.ROUTERS_ENABLED,
      controlPlane: e.CONTROL_PLANE,
      ports: e.BRIDGE_PORTS_RANGE,
      tagPrefix: e.SERVICE_ANNOTATION_TAG,
      isDialed: e.SKERRY_DIAL_SERVICES,
      ...{ installation: e.CONTROLLER_NAME, appLabel: e.APP_LABEL, componentDomain: e.COMPONENT_LABEL_DOMAIN },
    },
    ...hubOf(e, systemImagesOf(images.data)),
    relay: relayOf(e),
    auth: authOf(e, env.SKERRY_GROUPS_PREFIX === ''),
    warnings: warningsOf(e, hostname()),
  };
}

function warningsOf(e: z.infer<typeof environment>, host: string): string[] {
  const warnings: string[] = [];
  // A manifest from before this variable named the installation.
  if (e.CONTROLLER_NAME === host && e.POD_NAME === undefined)
    warnings.push(
      `CONTROLLER_NAME="${host}" is the name of this host or pod, and names the installation: set POD_NAME to it, and CONTROLLER_NAME to one name for all replicas`,
    );
  if (e.AUTH_SESSION_STORE_TYPE === 'memory')
    warnings.push(
      'AUTH_SESSION_STORE_TYPE=memory has no effect: logins in the browser are stored in the datastore, so that every replica knows them',
    );
  return warnings;
}

function hubOf(e: z.infer<typeof environment>, images: SystemImages): Pick<Config, 'hub'> {
  const { BUS_HUB_REPLICAS: replicas, BUS_HUB_STORAGE_CLASS: storageClass } = e;
  if (replicas === 0) return {};
  if (!e.BUS_ENABLED) throw new ConfigError('BUS_HUB_REPLICAS needs BUS_ENABLED=true');
  if (e.CONTROL_PLANE !== 'kubernetes')
    throw new ConfigError(
      'BUS_HUB_REPLICAS needs CONTROL_PLANE=kubernetes: a node of the system is the hub of the other one',
    );
  return {
    hub: {
      ...{ installation: e.CONTROLLER_NAME, appLabel: e.APP_LABEL, componentDomain: e.COMPONENT_LABEL_DOMAIN },
      image: e.BUS_HUB_IMAGE ?? images.bus?.[1] ?? BUILT_IN_CATALOG_ITEMS.bus.image,
      ...{ replicas, serviceType: e.BUS_HUB_SERVICE_TYPE },
      ...(storageClass && { storageClass }),
    },
  };
}

/** Many services that come at once lead to one write of the default router's configuration in this time, ms. */
const HUB_PACE_MS = 2_000;

function routerHubOf(e: z.infer<typeof environment>, images: SystemImages): Pick<Config, 'routerHub'> {
  if (!e.ROUTER_HUB) return {};
  if (!e.ROUTERS_ENABLED) throw new ConfigError('ROUTER_HUB needs ROUTERS_ENABLED=true');
  if (e.CONTROL_PLANE !== 'kubernetes')
    throw new ConfigError(
      'ROUTER_HUB needs CONTROL_PLANE=kubernetes: the router of a node of the system is the default router of the other one',
    );
  return {
    routerHub: {
      ...{ installation: e.CONTROLLER_NAME, appLabel: e.APP_LABEL, componentDomain: e.COMPONENT_LABEL_DOMAIN },
      image: e.ROUTER_HUB_IMAGE ?? images.router?.[1] ?? BUILT_IN_CATALOG_ITEMS.router.image,
      ...{ serviceType: e.ROUTER_HUB_SERVICE_TYPE, paceMs: HUB_PACE_MS },
    },
  };
}

/** The bus where there is one, else the router, else what needs no set-up. */
function relayOf(e: z.infer<typeof environment>): RelaySettings {
  const { SKERRY_RELAY_BUS: servers, SKERRY_RELAY_ROUTER: hosts } = e;
  const credentials = e.SKERRY_RELAY_BUS_CREDENTIALS;
  const certificates = e.SKERRY_RELAY_ROUTER_CERTIFICATES;
  if (credentials && !servers?.length) throw new ConfigError('SKERRY_RELAY_BUS_CREDENTIALS needs SKERRY_RELAY_BUS');
  if (certificates && !hosts?.length)
    throw new ConfigError('SKERRY_RELAY_ROUTER_CERTIFICATES needs SKERRY_RELAY_ROUTER');
  const switches = {
    requiresBroker: e.WS_HA_CROSS_REPLICA_REQUIRES_AMQP,
    failsFast: e.WS_HA_FAIL_FAST_ON_ROUTER_UNAVAILABLE,
  };
  if (e.SKERRY_RELAY_DEFAULT_ROUTER) {
    if (!e.ROUTERS_ENABLED) throw new ConfigError('SKERRY_RELAY_DEFAULT_ROUTER needs ROUTERS_ENABLED=true');
    if (e.CONTROL_PLANE !== 'kubernetes')
      throw new ConfigError('SKERRY_RELAY_DEFAULT_ROUTER needs CONTROL_PLANE=kubernetes, as a RouterHub does');
    for (const [other, given] of Object.entries({ SKERRY_RELAY_ROUTER: hosts, SKERRY_RELAY_BUS: servers }))
      if (given?.length)
        throw new ConfigError(
          `SKERRY_RELAY_DEFAULT_ROUTER and ${other} exclude each other: sessions pass over one of them`,
        );
    return { by: 'default-router', ...switches };
  }
  if (servers?.length) return { by: 'bus', servers, ...(credentials && { credentials }), ...switches };
  if (hosts?.length) return { by: 'router', hosts, ...(certificates && { certificates }), ...switches };
  return { by: 'internal', ...switches };
}

function tunnelOf(e: z.infer<typeof environment>): Pick<Config, 'tunnel'> {
  const { TUNNEL_HOST: server, TUNNEL_USERNAME: username, SKERRY_TUNNEL_SECRET: secretName } = e;
  if (!server !== !username) throw new ConfigError('TUNNEL_HOST and TUNNEL_USERNAME need each other');
  if (!server || !username) {
    if (secretName) throw new ConfigError('SKERRY_TUNNEL_SECRET needs TUNNEL_HOST and TUNNEL_USERNAME');
    return {};
  }
  const settings = { ...server, username, ports: e.TUNNEL_PORT_RANGE, localPort: e.TUNNEL_LOCAL_PORT };
  return { tunnel: { ...settings, ...(secretName && { secretName }) } };
}

function systemImagesOf(given: Readonly<Record<string, string | undefined>>): SystemImages {
  const images: Partial<Record<SystemItemName, Record<number, string>>> = {};
  for (const { name, archId, variable } of SYSTEM_IMAGES) {
    const image = given[variable];
    if (image !== undefined) images[name] = { ...images[name], [archId]: image };
  }
  return images;
}

/** Agents fetch from the controller itself where it has the releases and no other place is named. */
function releasesOf(e: z.infer<typeof environment>): Pick<Config, 'releasesUrl' | 'releasesFolder'> {
  const own =
    e.SKERRY_RELEASES_DIR &&
    e.CONTROLLER_PUBLIC_URL &&
    `${e.CONTROLLER_PUBLIC_URL.replace(/(?<!\/)\/+$/, '')}/releases`;
  const url = e.SKERRY_RELEASES_URL ?? own;
  return { ...(url && { releasesUrl: url }), ...(e.SKERRY_RELEASES_DIR && { releasesFolder: e.SKERRY_RELEASES_DIR }) };
}

/** Name -> text of every variable, for `--help` and the documentation. */
export const environmentHelp = (): [string, string][] =>
  Object.entries({ ...environment.shape, ...imageEnvironment.shape }).map(([name, schema]) => [
    name,
    schema.description ?? '',
  ]);
