import { z } from 'zod';
import { BOUNDS } from '../../../src/api/bounds.ts';
import { labelName } from '../../../src/api/meta.ts';
import {
  ARCHITECTURES,
  BRIDGE_ZONE,
  LOCAL_APPLICATION,
  PORTS,
  RESERVED_EXTERNAL_PORTS,
} from '../../../src/api/names.ts';
import { anyJson, integer, object, oneOf, text } from '../../../src/api/schema.ts';
import { imageReference } from '../../../src/api/v3/microservice.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { yamlText } from '../../../src/yaml/text.ts';
import { MANIFEST_VERSION } from '../domain/names.ts';
import { invalidManifest, readManifestDocument } from './documents.ts';
import { localViewOf } from './manifest.ts';

/** A text that may be a secret, or that is none of anybody's business. */
const secret = (max: number = BOUNDS.envValue) => text({ min: 1, max }).optional();
const word = () => text({ min: 1, max: BOUNDS.anyName }).optional();
const seconds = () => integer(1, 43_200).optional();
const milliseconds = () => integer(1, 3_600_000).optional();
const image = imageReference.optional();
const images = () => object({ amd64: image, arm64: image, riscv64: image, arm: image }).optional();
/** A member that is known and that this control plane has nothing for: the rules refuse it by its name. */
const foreign = () => anyJson().optional();

const manifestSchema = object({
  apiVersion: z.literal(MANIFEST_VERSION),
  kind: z.literal('ControlPlane'),
  metadata: object({ name: labelName(), namespace: labelName().default('default') }),
  spec: object({
    controller: object({
      image: imageReference,
      registry: integer(1, BOUNDS.id).optional(),
      port: integer(1, 65_535).default(PORTS.rest),
      publicUrl: text({ min: 1, max: BOUNDS.url }).optional(),
      trustProxy: z.boolean().default(false),
    }),
    console: object({ port: foreign(), url: word() }).optional(),
    auth: object({
      mode: oneOf('embedded', 'external'),
      insecureAllowHttp: z.boolean().optional(),
      insecureAllowBootstrapLog: z.boolean().optional(),
      bootstrap: object({ username: word(), password: secret() }).optional(),
      issuerUrl: word(),
      client: object({ id: word(), secret: secret() }).optional(),
      consoleClient: word(),
      consoleClientEnabled: z.boolean().optional(),
      rateLimit: object({
        ...{ enabled: z.boolean().optional(), maxRequestsPerWindow: integer(1, 100_000).optional() },
        windowMs: milliseconds(),
      }).optional(),
      sessionStore: object({
        ...{ type: oneOf('memory', 'database').optional(), ttlMs: milliseconds(), secret: secret() },
      }).optional(),
      tokenTtl: object({ accessTokenTtlSeconds: seconds(), refreshTokenTtlSeconds: seconds() }).optional(),
      oidcTtl: object({
        ...{ interactionTtlSeconds: seconds(), grantTtlSeconds: seconds() },
        ...{ sessionTtlSeconds: seconds(), idTokenTtlSeconds: seconds() },
      }).optional(),
    }),
    database: foreign(),
    events: object({
      ...{ auditEnabled: z.boolean().optional(), captureIpAddress: z.boolean().optional() },
      ...{ retentionDays: foreign(), cleanupInterval: foreign() },
    }).optional(),
    systemMicroservices: object({ router: images(), bus: images() }).optional(),
    bus: object({ enabled: z.boolean().optional() }).optional(),
    logLevel: oneOf('trace', 'debug', 'info', 'warn', 'error', 'fatal').optional(),
    tls: object({
      path: text({ min: 1, max: BOUNDS.path }).optional(),
      base64: object({ cert: secret(), key: secret(), ca: secret() }).optional(),
    }).optional(),
    vault: foreign(),
  }),
});
type Manifest = z.output<typeof manifestSchema>;

/** Members whose values no message repeats, and that a masked manifest does not have. */
const SECRET: ReadonlySet<PropertyKey> = new Set([
  ...['password', 'secret', 'cert', 'key', 'ca', 'database', 'vault', 'publicUrl', 'issuerUrl', 'url'],
]);

/** The name of the control plane among the microservices of the machine, and in the bridge zone. */
export const CONTROL_PLANE_NAME = 'controller';

/** A control plane as a manifest describes it. */
export interface ManifestControlPlane {
  name: string;
  namespace: string;
  image: string;
  /** in the numbers of this machine; absent: nothing is pulled */
  registry: number | undefined;
  view(uuid: string): MicroserviceView;
}

/**
 * Reads the manifest of a control plane (docs/spec/agent-local-api.md#control-plane-of-the-machine). Throws an AgentError that names the
 * first thing that is wrong, without a value that may be secret.
 */
export function readControlPlaneManifest(source: string): ManifestControlPlane {
  const manifest = parsed(source);
  const wrong = RULES.map((rule) => rule(manifest.spec)).find(Boolean);
  if (wrong) throw invalidManifest(wrong);
  const { metadata, spec } = manifest;
  const { image, registry } = spec.controller;
  return { ...metadata, image, registry, view: (uuid) => viewOfControlPlane(spec, uuid) };
}

const parsed = (source: string): Manifest => readManifestDocument(source, manifestSchema, { secret: SECRET });

type Rule = (spec: Manifest['spec']) => string | undefined | false;

const OWN_DATABASE = 'the control plane has its datastore in its own volume: leave it out';

/** What no schema of a field says, and what this control plane cannot honour. The first answer is the refusal. */
const RULES: readonly Rule[] = [
  ({ database }) => database !== undefined && `spec.database: ${OWN_DATABASE}`,
  ({ vault }) => vault !== undefined && 'spec.vault: secrets are in the datastore of the control plane: leave it out',
  ({ console }) =>
    console?.port !== undefined && 'spec.console.port: there is no console in the control plane: leave it out',
  ({ events }) =>
    events?.retentionDays !== undefined &&
    'spec.events.retentionDays: the audit log has a size of its own, 7 days at most: leave it out',
  ({ events }) =>
    events?.cleanupInterval !== undefined &&
    'spec.events.cleanupInterval: the audit log is never longer than it may be: leave it out',
  ({ auth }) =>
    auth.sessionStore?.type === 'memory' &&
    'spec.auth.sessionStore.type: "memory" has no effect: use "database", where logins are',
  ({ controller: { publicUrl } }) =>
    publicUrl !== undefined &&
    !(isPlainUrl(publicUrl) && URL.parse(publicUrl)?.pathname === '/') &&
    'spec.controller.publicUrl: must be an http(s):// URL without credentials, path, query and fragment',
  ({ console }) =>
    console?.url !== undefined &&
    !isPlainUrl(console.url) &&
    'spec.console.url: must be an http(s):// URL without credentials, query and fragment',
  ({ auth: { issuerUrl } }) =>
    issuerUrl !== undefined &&
    !isPlainUrl(issuerUrl) &&
    'spec.auth.issuerUrl: must be an https:// URL without credentials, query and fragment',
  ({ controller: { port } }) =>
    RESERVED_EXTERNAL_PORTS.includes(port) && `spec.controller.port: ${port} is a port of the agent itself`,
  ({ controller: { port } }) =>
    (port === PORTS.metrics || port === PORTS.internal) &&
    `spec.controller.port: ${port} is a port of the control plane itself`,
  ({ auth: { bootstrap } }) =>
    (bootstrap?.username === undefined) !== (bootstrap?.password === undefined) &&
    'spec.auth.bootstrap: username and password need each other',
  ({ auth: { bootstrap } }) =>
    bootstrap?.password !== undefined &&
    !isStrong(bootstrap.password) &&
    'spec.auth.bootstrap.password: must have at least 12 characters, a capital letter and a special character',
  ({ auth: { mode, issuerUrl, client } }) =>
    mode === 'external' &&
    (issuerUrl === undefined || client?.id === undefined || client.secret === undefined) &&
    'spec.auth: the mode external needs issuerUrl, client.id and client.secret',
  ({ auth: { mode, issuerUrl } }) =>
    mode === 'embedded' && issuerUrl !== undefined && 'spec.auth.issuerUrl: only the mode external has one',
  ({ tls }) => tls?.path !== undefined && tls.base64 !== undefined && 'spec.tls: path and base64 exclude each other',
  ({ tls }) =>
    tls?.path !== undefined &&
    !tls.path.startsWith('/') &&
    'spec.tls.path: must be the absolute path of a folder with tls.crt and tls.key',
  ({ tls }) =>
    tls?.base64 !== undefined &&
    (tls.base64.cert === undefined || tls.base64.key === undefined) &&
    'spec.tls.base64: cert and key need each other',
  ({ tls }) =>
    tls?.base64?.ca !== undefined &&
    'spec.tls.base64.ca: put the authority at the end of cert: machines get it with the chain',
];

function isPlainUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^https?:$/.test(url.protocol) && !url.username && !url.password && !/[?#]/.test(text);
}

const isStrong = (password: string): boolean =>
  password.length >= 12 && /\p{Lu}/u.test(password) && /[^\p{L}\p{N}]/u.test(password);

const DATA = '/var/lib/skerry';
const TLS_FOLDER = '/etc/skerry/tls';
/** The user of the image. */
const USER = '65532';
/** A slow machine takes minutes; what cannot start ends by itself. */
const START_SECONDS = 840;
/** Asks the port of probes; with little of Node, since it runs often. */
const PROBE = `require("http").get("http://127.0.0.1:${PORTS.metrics}/readyz",r=>process.exit(r.statusCode===200?0:1)).on("error",()=>process.exit(1))`;

function viewOfControlPlane(spec: Manifest['spec'], uuid: string): MicroserviceView {
  const { image, registry, port } = spec.controller;
  const path = spec.tls?.path;
  const container = {
    ...{ runAsUser: USER, runAsGroup: USER, readOnlyRootFilesystem: true, capDrop: ['ALL'] },
    ports: [{ internal: port, external: port, protocol: 'tcp' as const }],
    volumes: [
      {
        ...{ type: 'volume' as const, scope: 'private' as const, accessMode: 'rw' as const },
        ...{ hostDestination: 'data', containerDestination: DATA },
      },
      ...(path === undefined
        ? []
        : [
            {
              ...{ type: 'bind' as const, accessMode: 'ro' as const },
              ...{ hostDestination: path, containerDestination: TLS_FOLDER },
            },
          ]),
    ],
    tmpfs: [{ containerPath: '/tmp', size: 64, mode: '1777' }],
    env: Object.entries(settingsOf(spec)).map(([key, value]) => ({ key, value })),
    healthCheck: {
      test: ['CMD', '/usr/bin/node', '-e', PROBE],
      interval: 10,
      timeout: 5,
      startPeriod: START_SECONDS,
      retries: 3,
    },
  };
  const microservice = {
    metadata: { name: CONTROL_PLANE_NAME },
    spec: { image, ...(registry !== undefined && { registry }), schedule: 0, container },
  };
  return { ...localViewOf(microservice, uuid), isController: true };
}

/** The settings of the controller, by its variables (docs/settings.md). */
function settingsOf({ controller, console, auth, events, systemMicroservices, bus, logLevel, tls }: Manifest['spec']) {
  const { port, publicUrl = `https://127.0.0.1:${port}`, trustProxy } = controller;
  const { bootstrap, client, rateLimit, sessionStore, tokenTtl, oidcTtl } = auth;
  const ownCertificate = tls === undefined && publicUrl.startsWith('https:') && !trustProxy;
  const all: Record<string, string | number | boolean | undefined> = {
    SERVER_PORT: port,
    CONTROLLER_PUBLIC_URL: publicUrl,
    TRUST_PROXY: trustProxy,
    CONSOLE_URL: console?.url,
    AUTH_MODE: auth.mode,
    AUTH_INSECURE_ALLOW_HTTP: auth.insecureAllowHttp,
    AUTH_INSECURE_ALLOW_BOOTSTRAP_LOG: auth.insecureAllowBootstrapLog,
    OIDC_BOOTSTRAP_ADMIN_USERNAME: bootstrap?.username,
    OIDC_BOOTSTRAP_ADMIN_PASSWORD: bootstrap?.password,
    OIDC_ISSUER_URL: auth.issuerUrl,
    OIDC_CLIENT_ID: client?.id,
    OIDC_CLIENT_SECRET: client?.secret,
    OIDC_CONSOLE_CLIENT_ID: auth.consoleClient,
    AUTH_CONSOLE_CLIENT_ENABLED: auth.consoleClientEnabled,
    AUTH_RATE_LIMIT_ENABLED: rateLimit?.enabled,
    AUTH_RATE_LIMIT_MAX_REQUESTS: rateLimit?.maxRequestsPerWindow,
    AUTH_RATE_LIMIT_WINDOW_MS: rateLimit?.windowMs,
    AUTH_SESSION_STORE_TTL_MS: sessionStore?.ttlMs,
    AUTH_SESSION_SECRET: sessionStore?.secret,
    AUTH_ACCESS_TOKEN_TTL_SECONDS: tokenTtl?.accessTokenTtlSeconds,
    AUTH_REFRESH_TOKEN_TTL_SECONDS: tokenTtl?.refreshTokenTtlSeconds,
    AUTH_OIDC_INTERACTION_TTL_SECONDS: oidcTtl?.interactionTtlSeconds,
    AUTH_OIDC_GRANT_TTL_SECONDS: oidcTtl?.grantTtlSeconds,
    AUTH_OIDC_SESSION_TTL_SECONDS: oidcTtl?.sessionTtlSeconds,
    AUTH_OIDC_ID_TOKEN_TTL_SECONDS: oidcTtl?.idTokenTtlSeconds,
    EVENT_AUDIT_ENABLED: events?.auditEnabled,
    EVENT_CAPTURE_IP_ADDRESS: events?.captureIpAddress,
    BUS_ENABLED: bus?.enabled,
    LOG_LEVEL: logLevel,
    // The image knows it by this name: no variable of a user begins with SKERRY_.
    CERTIFICATE_HOSTS: ownCertificate ? CERTIFICATE_HOSTS : undefined,
    ...(tls?.path !== undefined && {
      TLS_PATH_CERT: `${TLS_FOLDER}/tls.crt`,
      TLS_PATH_KEY: `${TLS_FOLDER}/tls.key`,
    }),
    TLS_BASE64_CERT: tls?.base64?.cert,
    TLS_BASE64_KEY: tls?.base64?.key,
    ...systemImages('ROUTER', systemMicroservices?.router),
    ...systemImages('BUS', systemMicroservices?.bus),
  };
  const given = Object.entries(all).flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
  return Object.fromEntries(given) as Record<string, string>;
}

/** Besides the host of the public URL: this machine, and containers of its engine. */
const CERTIFICATE_HOSTS = `localhost,127.0.0.1,${LOCAL_APPLICATION}.${CONTROL_PLANE_NAME}.${BRIDGE_ZONE}`;

const systemImages = (item: 'ROUTER' | 'BUS', given: Readonly<Record<string, string | undefined>> = {}) =>
  Object.fromEntries(
    Object.entries(given).map(([name, image]) => [
      `${item}_IMAGE_${(ARCHITECTURES as readonly string[]).indexOf(name)}`,
      image,
    ]),
  );

const MASK = '***';

/** A manifest for answers, without secrets. */
export function maskedControlPlaneManifest(source: string): string {
  return yamlText(masked(parsed(source)));
}

function masked(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(masked);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, MASKED.has(name) ? MASK : masked(inner)]),
  );
}

/** Of the members that no message repeats, the ones that a reader of the manifest has to see again are left. */
const MASKED: ReadonlySet<string> = new Set(['password', 'secret', 'cert', 'key', 'ca']);
