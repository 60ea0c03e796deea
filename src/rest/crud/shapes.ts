import { z } from 'zod';
import { BOUNDS } from '../../api/bounds.ts';
import { containerSchema, portSchema, volumeSchema } from '../../api/container/index.ts';
import {
  applicationSpecSchema,
  busConfigSchema,
  edgeNodeSpecSchema,
  microserviceSchema,
  PLATFORM_PHASES,
} from '../../api/v3/index.ts';
import { replyShape as reply } from '../../kinds/rest.ts';
import { EXPRESSION_REFUSED, findExpression } from '../../rules/expressions.ts';
import { PART_CONDITIONS } from '../../rules/part.ts';
import type { Body } from '../contract/route.ts';

/**
 * Bodies and replies of the API, for checks of their outer form and for the OpenAPI document. The domain checks the content
 * of bodies.
 */

/** Any JSON object. The domain reads it. */
export const anyObject = z.record(z.string(), z.unknown(), 'must be a JSON object');

/** A JSON body that the domain checks: the schema of its document, that of the object's read, and what is an expression. */
export const objectBody = (forms: Required<Pick<JsonBody, 'documents' | 'shows'>> & Pick<JsonBody, 'templated'>) =>
  ({ kind: 'json', schema: anyObject, templated: true, ...forms }) satisfies JsonBody;
type JsonBody = Extract<Body<typeof anyObject>, { kind: 'json' }>;

/** Any JSON without expressions: on routes that do not render them, they would be stored and act as they are written. */
export const withoutExpressions = z.unknown().superRefine((value, context) => {
  const path = findExpression(value);
  if (path) context.addIssue({ code: 'custom', path, message: EXPRESSION_REFUSED });
});

const all = (names: string, schema: () => z.ZodType): z.ZodRawShape =>
  Object.fromEntries(names.split(/\s+/).map((name) => [name, schema().optional()]));
const boolean = () => z.boolean();

export const uuidParam = z.object({ uuid: z.string().min(1).max(64).describe('uuid of the object') });
export const nameParam = z.object({ name: z.string().min(1).max(BOUNDS.anyName).describe('name of the object') });
export const idParam = z.object({
  id: z
    .string()
    .regex(/^[0-9]{1,15}$/, 'must be an integer')
    .transform(Number)
    .describe('number of the object'),
});

/** Query parameters of a list that is read page by page. */
export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(500).default(100).describe('most items of a page'),
  offset: z.coerce.number().int().min(0).max(BOUNDS.id).default(0).describe('items before the page'),
};

export const errorShape = z.looseObject({
  name: z.string().describe('Class of the error'),
  message: z.string().describe('What is wrong, for people'),
  code: z.string().describe('What is wrong, for programs'),
  error: z.string().optional().describe('"Forbidden" on 403'),
  retryable: z.boolean().optional().describe('Whether the same request may succeed later'),
});

/* ---- controller ---- */

export const livenessShape = reply(
  {
    status: z.string(),
    timestamp: z.number().describe('Clock of the controller, Unix ms'),
    uptimeSec: z.number(),
    versions: z.record(z.string(), z.string()),
    message: z.string().optional().describe('Why people cannot log in, while the OpenID provider cannot be asked'),
  },
  'Liveness',
);
export const architecturesShape = reply({
  architectures: z.array(
    z.object({ id: z.number().int(), name: z.string(), image: z.string(), description: z.string() }),
  ),
});

/* ---- nodes ---- */

const nodeFields = z.object(edgeNodeSpecSchema.shape).omit({ uuid: true });
export const nodeBody = nodeFields.partial().meta({ id: 'NodeChanges' });
export const nodeCreateBody = nodeFields.partial().required({ name: true }).meta({ id: 'NewNode' });
export const nodeCreated = reply({ id: z.string(), uuid: z.string() });
export const filtersBody = z.array(
  z.object({
    key: z.string().describe('Field of the node read'),
    value: z.string(),
    condition: z.enum(['equals', 'has']).optional(),
  }),
);
const platformStatusShape = z.looseObject({
  phase: z.enum(PLATFORM_PHASES),
  generation: z.number().int(),
  observedGeneration: z.number().int().optional(),
  lastError: z.string().nullish(),
  lastTransitionAt: z.string().nullish(),
  conditions: z
    .array(
      z.object({
        type: z.enum(PART_CONDITIONS),
        status: z.enum(['True', 'False', 'Unknown']),
        reason: z.string(),
        message: z.string(),
        lastTransitionTime: z.string(),
      }),
    )
    .optional(),
});
export const nodeShape = reply(
  {
    ...all(
      `lastActive daemonOperatingDuration daemonLastStart repositoryCount systemTime lastStatusTime lastCommandTime
    logFileCount latitude longitude memoryUsage diskUsage cpuUsage systemAvailableDisk systemAvailableMemory
    systemTotalCpu systemCpus systemTotalMemory systemTotalDisk diskLimit memoryLimit cpuLimit logLimit statusFrequency
    changeFrequency pruningFrequency availableDiskThreshold routerId createAt updatedAt archId messagingPort
    busServerPort busLeafPort busClusterPort busMqttPort busHttpPort activeModels modelLastUpdate activeKnowledge
    knowledgeLastUpdate activeVolumeMounts volumeMountLastUpdate`,
      () => z.number().nullable(),
    ),
    ...all(
      `location gpsMode description daemonStatus systemOs systemOsVersion systemKernelVersion catalogItemStatus
    repositoryStatus ipAddress ipAddressExternal networkInterface containerEngineUrl containerEngine deploymentType
    diskDirectory logDirectory version tunnel logLevel runtimeClasses availableCdiDevices modelStatus knowledgeStatus
    jsStorageSize jsMemoryStoreSize routerMode busMode warningMessage gpsStatus tunnelStatus securityStatus
    securityViolationInfo microserviceStatus`,
      () => z.string().nullable(),
    ),
    ...all(
      'memoryViolation diskViolation cpuViolation isReadyToUpgrade isReadyToRollback watchdogEnabled isSystem busClientTls',
      boolean,
    ),
    ...all('availableRuntimes upstreamRouters upstreamBusServers tags', () => z.array(z.string())),
    uuid: z.string(),
    name: z.string(),
    arch: z.looseObject({}).optional(),
    volumeMounts: z.array(z.looseObject({ name: z.string() })).optional(),
    platformStatus: platformStatusShape.optional(),
  },
  'Node',
);
export const nodeList = reply({ fogs: z.array(nodeShape) });
export const provisioningKey = reply({
  key: z.string(),
  expirationTime: z.number().describe('Unix ms'),
  caCert: z.string().describe('Base64 PEM of the CA to trust; empty when there is none or it is public'),
});
export const uuidReply = reply({ uuid: z.string() });

/* ---- microservices ---- */

const container = z.object(containerSchema.shape).omit({ cmd: true, volumes: true, annotations: true }).shape;
const entry = microserviceSchema.shape;
export const portMapping = z.object(portSchema.shape);
export const volumeMapping = z.object(volumeSchema.shape);
export const catalogShape = z
  .object({
    bindPath: z.string().describe('Absolute path in the container'),
    permissions: z.enum(['ro', 'rw']),
    items: z.array(z.object({ name: z.string() })),
  })
  .partial();
const microserviceFields = z.object({
  ...container,
  name: entry.name.optional(),
  application: z.string().describe('Name of the application').optional(),
  nodeUuid: z.string().describe('uuid of the node').optional(),
  agentName: z.string().describe('Name of the node').optional(),
  config: z.string().describe('JSON text').optional(),
  annotations: z.string().describe('JSON text of an object with text values').optional(),
  registryId: z.number().int().describe('Registry of type oci; the public hub when absent').optional(),
  catalogItemId: z.number().int().optional(),
  images: z
    .array(z.object({ containerImage: z.string(), archId: z.number().int().min(1).max(4) }))
    .min(1)
    .max(4)
    .optional(),
  schedule: entry.schedule.optional(),
  minReadySeconds: entry.minReadySeconds,
  rebuild: z.boolean().describe('Order one rebuild').optional(),
  isActivated: z.boolean().optional(),
  volumeMappings: z.array(volumeMapping).max(BOUNDS.volumes).optional(),
  cmd: z.array(z.string()).describe('Other spelling of commands').optional(),
  portMappings: container.ports.describe('Other spelling of ports'),
  models: entry.models,
  knowledge: entry.knowledge,
  template: entry.template,
  serviceAccount: entry.serviceAccount,
  busConfig: entry.busConfig,
  busEnabled: entry.busEnabled,
});
export const microserviceBody = microserviceFields.meta({ id: 'MicroserviceChanges' });
export const microserviceCreateBody = microserviceFields
  .required({ name: true, application: true })
  .meta({ id: 'NewMicroservice' });
const applicationEntry = microserviceFields.required({ name: true }).meta({ id: 'NewApplicationMicroservice' });
export const microserviceCreated = reply({ uuid: z.string(), name: z.string() });
export const microserviceShape = reply(
  {
    uuid: z.string(),
    name: z.string(),
    application: z.string(),
    isActivated: z.boolean(),
    applicationId: z.number().optional(),
    flowId: z.number().optional(),
    nodeUuid: z.string().optional(),
    agentName: z.string().optional(),
    config: z.string().optional(),
    annotations: z.string().optional(),
    registryId: z.number().int().optional(),
    catalogItemId: z.union([z.number(), z.string()]).optional(),
    images: z.array(z.looseObject({ containerImage: z.string(), archId: z.number().int() })),
    schedule: z.number().int().optional(),
    minReadySeconds: z.number().int().optional(),
    ports: z.array(portMapping),
    volumeMappings: z.array(z.looseObject({ id: z.number().int() })),
    env: z.array(z.looseObject({ key: z.string() })),
    extraHosts: z.array(z.looseObject({ name: z.string(), address: z.string(), value: z.string().optional() })),
    busAccess: z.boolean().optional(),
    deleteWithCleanup: z.boolean().optional(),
    delete: z.boolean().optional().describe('Removed, and still reported by its node'),
    status: z.looseObject({
      status: z.string(),
      startTime: z.number(),
      operatingDuration: z.number(),
      cpuUsage: z.number(),
      memoryUsage: z.number(),
      percentage: z.number().optional(),
      containerId: z.string().optional(),
      errorMessage: z.string().optional(),
      lastError: z.string().optional(),
      lastErrorAt: z.number().optional(),
      restartCount: z.number().optional(),
    }),
    execStatus: z.looseObject({ status: z.string() }),
  },
  'Microservice',
);
export const microserviceList = reply({ microservices: z.array(microserviceShape) });

/* ---- applications ---- */

const busConfig = z.object(busConfigSchema.shape);
export const applicationBody = z.object({
  name: z.string().optional(),
  description: z.string().optional(),
  isActivated: z.boolean().optional(),
  busConfig: busConfig.optional(),
  template: applicationSpecSchema.shape.template,
  microservices: z.array(applicationEntry).max(BOUNDS.entries).optional(),
});
export const applicationCreateBody = applicationBody.required({ name: true });
export const applicationPatchBody = applicationBody.omit({ microservices: true, template: true });
export const applicationCreated = reply({ id: z.number().int(), name: z.string() });
export const applicationShape = reply(
  {
    id: z.number().int().optional(),
    name: z.string(),
    description: z.string(),
    isActivated: z.boolean(),
    isSystem: z.boolean().optional(),
    busConfig: z.looseObject({}),
    microservices: z.array(microserviceShape),
  },
  'Application',
);
export const applicationList = reply({ applications: z.array(applicationShape) });
