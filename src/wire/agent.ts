import { z } from 'zod';
import { BOUNDS } from '../api/bounds.ts';
import { containerViewShape, portMappingSchema } from '../api/container/index.ts';
import { jsonExcess } from '../api/json.ts';
import { ARCHITECTURES } from '../api/names.ts';
import { artifactStatusSchema } from './artifacts.ts';
import { busServerReportSchema } from './bus.ts';
import { routerReportSchema } from './router.ts';
import { systemFilesReportSchema } from './system-files.ts';
import { tunnelStatusSchema } from './tunnel.ts';

/**
 * Messages between controller and agent. Both sides are tolerant readers: unknown members are dropped, never an error,
 * since agents in the field are older or newer than the controller. Members marked "ours" are additions to the v3 wire
 * that third-party agents neither send nor read.
 */

const text = (max: number) => z.string().max(max);
const count = z.number().int().min(0);
/** numbers arrive as numbers or as text (older agents send cpuUsage and memoryUsage as strings) */
const numeric = z.coerce.number().catch(0);

/** An Ed25519 public key as a JWK (RFC 8037). */
export const publicKeySchema = z.object({
  kty: z.literal('OKP'),
  crv: z.literal('Ed25519'),
  x: z.string().regex(/^[A-Za-z0-9_-]{43}$/),
});
export type PublicKey = z.infer<typeof publicKeySchema>;

/** Body of `POST /agent/provision`. `type` is the architecture id (1..4; 0 only when the node's is already known). */
export const provisionRequestSchema = z.object({
  key: z.string().min(1).max(255),
  type: z
    .number()
    .int()
    .min(0)
    .max(ARCHITECTURES.length - 1),
  engine: text(32).optional(),
  /** ours: the agent's own public key; the controller then makes no key pair */
  publicKey: publicKeySchema.optional(),
});
export type ProvisionRequest = z.infer<typeof provisionRequestSchema>;

/** Response of `POST /agent/provision`. `privateKey` (base64 of a JWK) only for agents that sent no public key. */
export const provisionReplySchema = z.object({
  uuid: z.string(),
  namespace: z.string(),
  privateKey: z.string().optional(),
  /** ours: the name of the node, for users */
  name: z.string().optional(),
});
export type ProvisionReply = z.infer<typeof provisionReplySchema>;

/** Body of `POST /agent/controller/register`, as our agents send it: what of the controller no other machine need know is left out. */
export interface ControllerRegistration {
  uuid: string;
  name: string;
  images: readonly { containerImage: string; archId: number }[];
  registryId: number;
}

/** Response of the same. */
export const registeredSchema = z.object({ uuid: z.string() });

/** Body of `POST /agent/deprovision`. */
export const deprovisionRequestSchema = z.object({ microserviceUuids: z.array(text(64)).max(BOUNDS.report) });

/** Body of `PATCH /agent/changes`. */
export const changesAckSchema = z.object({ lastUpdated: text(64) });

/**
 * Settings of `GET|PATCH /agent/config` (docs/spec/agent-channel.md#settings). Units: diskLimit and logLimit GiB,
 * memoryLimit MiB, cpuLimit percent of one core, frequencies seconds, pruningFrequency hours, availableDiskThreshold
 * percent. An absent member means: the machine decides.
 */
export const agentConfigSchema = z.object({
  networkInterface: text(64).optional(),
  containerEngine: text(32).optional(),
  containerEngineUrl: text(BOUNDS.url).optional(),
  diskLimit: z.number().min(0).optional(),
  diskDirectory: text(BOUNDS.path).optional(),
  memoryLimit: z.number().min(0).optional(),
  cpuLimit: z.number().min(0).optional(),
  logLimit: z.number().min(0).optional(),
  logDirectory: text(BOUNDS.path).optional(),
  logFileCount: count.optional(),
  statusFrequency: z.number().min(0).optional(),
  changeFrequency: z.number().min(0).optional(),
  watchdogEnabled: z.boolean().optional(),
  edgeGuardFrequency: count.optional(),
  gpsMode: text(32).optional(),
  gpsDevice: text(BOUNDS.path).optional(),
  gpsScanFrequency: count.optional(),
  latitude: z.number().min(-90).max(90).optional(),
  longitude: z.number().min(-180).max(180).optional(),
  logLevel: text(16).optional(),
  pruningFrequency: count.optional(),
  availableDiskThreshold: z.number().min(0).optional(),
  timeZone: text(64).optional(),
});
export type AgentConfig = z.infer<typeof agentConfigSchema>;

const catalogSchema = z.object({
  bindPath: text(BOUNDS.path).optional(),
  permissions: z.enum(['ro', 'rw']).default('ro'),
  items: z.array(z.object({ name: text(BOUNDS.name) })).default([]),
});

const words = z.array(text(BOUNDS.name)).max(256);

/** What a role allows in the agent's local API (docs/spec/agent-local-api.md#what-a-role-grants). */
const ruleSchema = z.object({
  apiGroups: words,
  resources: words,
  verbs: words,
  /** uuids or names; absent: all */
  resourceNames: words.optional(),
});
export type RoleRule = z.infer<typeof ruleSchema>;

/** As whom a microservice asks the agent's local API. Rules that cannot be read grant nothing. */
const serviceAccountSchema = z.object({
  name: text(BOUNDS.name),
  roleRef: z.object({ kind: text(64).default('Role'), name: text(BOUNDS.name) }).optional(),
  rules: z.array(ruleSchema).max(256).catch([]).default([]),
});
export type ServiceAccountView = z.infer<typeof serviceAccountSchema>;

/**
 * What a node is to run of one microservice (docs/spec/agent-channel.md#microservice-view). Units: memory sizes MiB,
 * cpus cores, tmpfs.size MiB, logSize MiB (0 = 10), health check times seconds.
 */
export const microserviceViewSchema = z.object({
  uuid: text(64),
  name: text(BOUNDS.name),
  application: text(BOUNDS.name),
  /** image reference for the node's architecture */
  imageId: text(BOUNDS.images),
  registryId: z.number().int(),
  /** JSON text */
  config: z.string().default('{}'),
  /** third-party agents: true until the rebuild is done */
  rebuild: z.boolean().default(false),
  /** ours: how many rebuilds were ever requested; the agent echoes it once carried out */
  rebuildCount: count.default(0),
  /** ours: hash of the non-default fields; the agent echoes the revision that really runs */
  revision: text(64).default(''),
  schedule: z.number().int().min(0).max(100).default(50),
  /** ours: system microservices start before those of users */
  isSystem: z.boolean().default(false),
  ...containerViewShape,
  models: catalogSchema.optional(),
  knowledge: catalogSchema.optional(),
  serviceAccount: serviceAccountSchema.nullish().catch(undefined),
  isRouter: z.boolean().default(false),
  isBus: z.boolean().default(false),
  isController: z.boolean().default(false),
});
export type MicroserviceView = z.infer<typeof microserviceViewSchema>;

/**
 * Ours: an entry that may not be changed now (its verdict is negative). The agent keeps the revision it runs, restarts
 * it when it dies, and starts nothing new.
 */
export const microserviceHoldSchema = z.object({
  uuid: text(64),
  hold: z.literal(true),
  reason: text(64),
  message: text(BOUNDS.message).default(''),
  /** what people call it; absent: from a controller that does not say */
  application: text(BOUNDS.name).optional(),
  name: text(BOUNDS.name).optional(),
  /** what its role grants meanwhile; absent: what it granted last */
  serviceAccount: serviceAccountSchema.nullish().catch(undefined),
});
export type MicroserviceHold = z.infer<typeof microserviceHoldSchema>;

/**
 * The agent retains what the list does not name: the datastore behind the list lacks what the agent was sent before. What
 * else the agent runs is suspended, until a list comes without this.
 */
export const retainUnlistedSchema = z.object({
  reason: text(64),
  /** epoch that the operator names to accept the datastore */
  acceptEpoch: text(64),
  /** to save when there is nothing to retain */
  position: text(64),
});
export type RetainUnlisted = z.infer<typeof retainUnlistedSchema>;

export const microservicesReplySchema = z.object({
  microservices: z.array(z.union([microserviceHoldSchema, microserviceViewSchema])).max(BOUNDS.report),
  retainUnlisted: retainUnlistedSchema.optional(),
});

/**
 * One registry as a node needs it (docs/spec/agent-channel.md#registries). Credentials only where a microservice of the
 * node needs them.
 */
export const registryViewSchema = z.object({
  id: z.number().int(),
  url: z.string(),
  isPublic: z.boolean().default(true),
  username: z.string().default(''),
  password: z.string().default(''),
  userEmail: z.string().default(''),
  type: z.enum(['oci', 'hub']).catch('oci'),
  /** base64 PEM bundle */
  ca: z.string().default(''),
  insecure: z.boolean().default(false),
});
export type RegistryView = z.infer<typeof registryViewSchema>;

/** A runtime class of a node: its name for microservices, and the runtime of the engine that it means. */
export const runtimeClassViewSchema = z.object({ name: text(BOUNDS.name), handler: text(BOUNDS.name) });
export type RuntimeClassView = z.infer<typeof runtimeClassViewSchema>;

const runtimeClassStatusSchema = runtimeClassViewSchema.extend({
  source: z.enum(['local', 'managed']).catch('managed'),
});

const MICROSERVICE_STATES = [
  'QUEUED',
  'PULLING',
  'CREATING',
  'CREATED',
  'STARTING',
  'RUNNING',
  'UPDATING',
  'RESTARTING',
  'STUCK_IN_RESTART',
  'EXITING',
  'FAILED',
  'STOPPING',
  'STOPPED',
  'MARKED_FOR_DELETION',
  'DELETING',
  'DELETED',
  'UNKNOWN',
] as const;
export type MicroserviceState = (typeof MICROSERVICE_STATES)[number];

const DAEMON_STATES = [
  'NOT_PROVISIONED',
  'STARTING',
  'RUNNING',
  'STOPPED',
  'WAITING',
  'WARNING',
  'ERROR',
  'DEBUGGING',
  'DEPROVISIONED',
  'UNKNOWN',
] as const;
export type DaemonState = (typeof DAEMON_STATES)[number];

/**
 * What a node reports of one microservice (docs/spec/agent-channel.md#microservice-status). Times are Unix ms,
 * memoryUsage bytes, cpuUsage percent.
 */
export const microserviceStatusSchema = z.object({
  id: text(64),
  status: z.enum(MICROSERVICE_STATES).catch('UNKNOWN'),
  /** pull progress 0..100 */
  percentage: numeric.optional(),
  containerId: text(128).optional(),
  podId: text(128).optional(),
  startTime: numeric.optional(),
  operatingDuration: numeric.optional(),
  cpuUsage: numeric.optional(),
  memoryUsage: numeric.optional(),
  ipAddress: text(64).optional(),
  healthStatus: text(32).optional(),
  /** ours: exit code and output of the health check that fails */
  healthMessage: text(BOUNDS.healthMessage).optional(),
  execSessionIds: z.array(text(64)).max(64).optional(),
  /** absent: unchanged; empty: cleared */
  errorMessage: text(BOUNDS.message).optional(),
  lastError: text(BOUNDS.message).optional(),
  lastErrorAt: numeric.optional(),
  restartCount: numeric.optional(),
  /** ours: name and application as last known, for microservices the controller no longer lists */
  name: text(BOUNDS.name).optional(),
  application: text(BOUNDS.name).optional(),
  /** ours: the revision that really runs */
  revision: text(64).optional(),
  /** ours: engine's id (sha256:...) of the image that really runs */
  imageId: text(BOUNDS.images).optional(),
  /** ours: the reference of that image, as the view had it */
  image: text(BOUNDS.images).optional(),
  /** ours: rebuilds carried out */
  rebuildCount: count.optional(),
  /** ours: external ports in use by the container */
  ports: z.array(portMappingSchema).max(BOUNDS.ports).optional(),
  /** ours: machine-readable reason for the state, for example ImagePullFailed or StoppedLocally */
  reason: text(64).optional(),
  /** ours: fields of the view that this agent or its engine cannot honour */
  notHonoured: z
    .array(z.object({ field: text(64), reason: text(256) }))
    .max(BOUNDS.notHonoured)
    .optional(),
});
export type MicroserviceStatus = z.infer<typeof microserviceStatusSchema>;

export const repositoryStatusSchema = z.object({ id: z.number().int(), linkStatus: text(64).optional() });

/** Older agents send arrays as JSON text; both forms are accepted. Malformed text counts as absent. */
const jsonArray = <T extends z.ZodType>(item: T, max: number) =>
  z.preprocess((value) => (typeof value === 'string' ? parseJson(value) : value), z.array(item).max(max).optional());

/** The value of a JSON text within bounds; undefined when the text is no JSON. */
export function parseJson(text: string): unknown {
  if (jsonExcess(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** How far an agent is with the change of its own version. */
const UPDATE_STATES = ['Idle', 'Downloading', 'Retrying', 'OnTrial', 'Failed'] as const;

/** Body of `PUT /agent/status` (docs/spec/agent-channel.md#status-report): a delta, absent members keep their value. */
export const statusReportSchema = z.object({
  daemonStatus: z.enum(DAEMON_STATES).catch('UNKNOWN').optional(),
  warningMessage: text(BOUNDS.message).optional(),
  /** ours: why the container engine cannot be inspected; empty while it can */
  engineError: text(BOUNDS.message).optional(),
  daemonOperatingDuration: numeric.optional(),
  daemonLastStart: numeric.optional(),
  memoryUsage: numeric.optional(),
  diskUsage: numeric.optional(),
  cpuUsage: numeric.optional(),
  memoryViolation: z.boolean().optional(),
  diskViolation: z.boolean().optional(),
  cpuViolation: z.boolean().optional(),
  systemAvailableDisk: numeric.optional(),
  systemTotalDisk: numeric.optional(),
  systemAvailableMemory: numeric.optional(),
  systemTotalMemory: numeric.optional(),
  systemTotalCpu: numeric.optional(),
  systemCpus: numeric.optional(),
  systemOs: text(64).optional(),
  systemOsVersion: text(256).optional(),
  systemKernelVersion: text(256).optional(),
  /** all microservices of the node: present means the whole list, never a part of it */
  microserviceStatus: jsonArray(microserviceStatusSchema, BOUNDS.report),
  /** ours: digest of the microserviceList by which `microserviceStatus` was made; empty without one, or while the engine cannot be read */
  microserviceList: text(64).optional(),
  repositoryCount: numeric.optional(),
  repositoryStatus: jsonArray(repositoryStatusSchema, BOUNDS.report),
  /** the agent's clock, Unix ms */
  systemTime: numeric.optional(),
  lastCommandTime: numeric.optional(),
  ipAddress: text(64).optional(),
  ipAddressExternal: text(64).optional(),
  version: text(64).optional(),
  isReadyToUpgrade: z.boolean().optional(),
  isReadyToRollback: z.boolean().optional(),
  /** ours: how far the change of the agent's version is, or why the last one failed */
  update: z
    .object({
      state: z.enum(UPDATE_STATES).catch('Idle'),
      version: text(64).optional(),
      message: text(BOUNDS.message).optional(),
    })
    .optional(),
  activeVolumeMounts: numeric.optional(),
  volumeMountLastUpdate: numeric.optional(),
  /** ours */
  systemFiles: systemFilesReportSchema.optional(),
  /** ours: the server of the message bus; absent until there was one */
  busServer: busServerReportSchema.optional(),
  /** ours: the router; absent until there was one */
  router: routerReportSchema.optional(),
  modelStatus: jsonArray(artifactStatusSchema, BOUNDS.artifacts),
  activeModels: numeric.optional(),
  modelLastUpdate: numeric.optional(),
  knowledgeStatus: jsonArray(artifactStatusSchema, BOUNDS.artifacts),
  activeKnowledge: numeric.optional(),
  knowledgeLastUpdate: numeric.optional(),
  runtimeClasses: jsonArray(runtimeClassStatusSchema, BOUNDS.runtimeClasses),
  gpsStatus: text(64).optional(),
  tunnelStatus: tunnelStatusSchema,
  availableRuntimes: z.array(text(64)).max(64).optional(),
  availableCdiDevices: z.array(text(256)).max(256).optional(),
  /** ours: counters of actions carried out */
  actions: z.partialRecord(z.enum(['reboot', 'prune', 'version', 'reconcile']), count).optional(),
  /** ours: effective settings and what of the node's spec the machine refuses */
  config: agentConfigSchema.optional(),
  refusedSettings: z
    .array(z.object({ field: text(64), reason: text(256) }))
    .max(32)
    .optional(),
});
export type StatusReport = z.infer<typeof statusReportSchema>;
export type UpdateReport = NonNullable<StatusReport['update']>;

/** Members of a report that change constantly: an agent sends them only with a report that is due anyway, and no status has them. */
export const MEASUREMENTS = [
  'memoryUsage',
  'diskUsage',
  'cpuUsage',
  'systemAvailableDisk',
  'systemAvailableMemory',
  'systemTotalCpu',
  'daemonOperatingDuration',
  'systemTime',
] as const satisfies readonly (keyof StatusReport)[];

/** Response of `GET /agent/version`. */
export const versionReplySchema = z.object({
  versionCommand: z.enum(['upgrade', 'rollback']),
  provisionKey: z.string(),
  expirationTime: z.coerce.number(),
  semver: text(64).optional(),
  /** ours: where releases of our agent are (docs/spec/agent-channel.md#releases) */
  releasesUrl: text(BOUNDS.url).optional(),
});
export type VersionReply = z.infer<typeof versionReplySchema>;

/** Body of every failed agent route. `retryable: false` only for what is provably a bad credential or a bad request. */
export const agentErrorSchema = z.object({
  error: z.string(),
  code: z.string(),
  message: z.string(),
  retryable: z.boolean(),
});

/** `GET /status` and `GET /live`. */
export const readinessSchema = z.object({
  status: z.string(),
  /** the controller's clock, Unix ms */
  timestamp: z.number(),
  uptimeSec: z.number(),
  versions: z.record(z.string(), z.string()).optional(),
});
