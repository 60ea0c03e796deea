import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import {
  AGE_COLUMN,
  type CustomResource,
  conditionsSchema,
  IDENTITIES,
  isSystemRule,
  nameRule,
  observedGenerationSchema,
  READY_COLUMN,
  type ResourceDefinition,
} from '../meta.ts';
import { withRules } from '../rules.ts';
import { atomicList, integer, mapList, mapOf, object, oneOf, text } from '../schema.ts';

const identity = IDENTITIES.uuid;
const INT32 = 2 ** 31 - 1;
const port = integer(1, 65535);
const amount = (max = INT32) => integer(0, max);
/** Size of a store of the message bus; a number alone counts GiB. */
export const storeSizeSchema = text({
  max: 32,
  pattern: '^[0-9]+ *([mM]|[mM][bB]|[gG]|[gG][bB]|[tT]|[tT][bB])?$',
  expects: 'a number with unit m, mb, g, gb, t or tb',
});
const machineDecides = 'The machine decides when absent.';

/**
 * Settings that belong to the machine have no default here: when a field is unset, the machine decides
 * (docs/spec/agent-channel.md#settings); REST shows the documented default.
 */
export const edgeNodeSpecSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName })
      .optional()
      .describe('Name in the v3 API; metadata.name when absent. Immutable.'),
    ...identity.asked,
    location: text({ max: BOUNDS.description }).optional().describe('Where it stands, for people.'),
    description: text({ max: BOUNDS.description }).optional().describe('What it is, for people.'),
    latitude: z.number().min(-90).max(90).optional().describe('Degrees north; given with longitude.'),
    longitude: z.number().min(-180).max(180).optional().describe('Degrees east; given with latitude.'),
    gpsMode: oneOf('auto', 'manual', 'dynamic', 'off').optional().describe('Where coordinates come from.'),
    gpsDevice: text({ max: BOUNDS.path }).optional().describe('Device of gpsMode dynamic.'),
    gpsScanFrequency: amount().optional().describe('Seconds between readings.'),
    containerEngine: oneOf('embedded', 'docker', 'podman', 'engine_a', 'engine_b')
      .optional()
      .describe(`Container engine asked for; engine_a is docker, engine_b is podman. ${machineDecides}`),
    containerEngineUrl: text({ max: BOUNDS.url }).optional().describe(`Socket of the engine. ${machineDecides}`),
    deploymentType: oneOf('native', 'container').optional().describe('How the agent is installed.'),
    diskLimit: amount().optional().describe(`Disk that the agent may use, GiB. ${machineDecides}`),
    diskDirectory: text({ max: BOUNDS.path }).optional().describe(`Data directory of the agent. ${machineDecides}`),
    memoryLimit: amount().optional().describe(`Memory that the agent may use, MiB. ${machineDecides}`),
    cpuLimit: integer(5, 400).optional().describe(`CPU that the agent may use, percent of one core. ${machineDecides}`),
    logLimit: amount().optional().describe(`Disk for the agent's logs, GiB. ${machineDecides}`),
    logDirectory: text({ max: BOUNDS.path }).optional().describe(`Log directory of the agent. ${machineDecides}`),
    logFileCount: amount().optional().describe(`Log files kept. ${machineDecides}`),
    logLevel: text({ max: 16 }).optional().describe(`Log level of the agent. ${machineDecides}`),
    statusFrequency: amount().optional().describe(`Seconds between reports. ${machineDecides}`),
    changeFrequency: amount().optional().describe(`Seconds between polls. ${machineDecides}`),
    watchdogEnabled: z
      .boolean()
      .optional()
      .describe(`Report containers that are not ours; the machine's own config decides whether to remove them.`),
    edgeGuardFrequency: amount().optional().describe('Seconds between checks of the hardware signature, 0 = off.'),
    pruningFrequency: amount().optional().describe(`Hours between prunings, 0 = off. ${machineDecides}`),
    availableDiskThreshold: amount(100)
      .optional()
      .describe(`Percent of free disk below which images are pruned. ${machineDecides}`),
    upgradeScanFrequency: amount().optional().describe('Hours between looks for a new version.'),
    timeZone: text({ max: 64 }).optional().describe(`IANA time zone of the containers. ${machineDecides}`),
    networkInterface: text({ max: 64 }).optional().describe(`Interface whose address is reported. ${machineDecides}`),
    archId: integer(0, 4)
      .optional()
      .describe('Architecture: 0 auto, 1 amd64, 2 arm64, 3 riscv64, 4 arm. Replaced by what the agent reports.'),
    host: text({ max: BOUNDS.name })
      .optional()
      .describe("Address under which other nodes reach it; the agent's address when absent."),
    tags: atomicList(text({ min: 1, max: BOUNDS.anyName }), BOUNDS.tags)
      .optional()
      .describe('Tags that services select nodes by.'),
    isSystem: z
      .boolean()
      .optional()
      .describe(
        'Node of the system, with an interior router and a bus server; on control plane remote alone. Immutable.',
      ),
    routerMode: oneOf('none', 'edge', 'interior').optional().describe('Router of the service interconnection.'),
    messagingPort: port.optional().describe('Port of the router for its node.'),
    interRouterPort: port.optional().describe('Port of an interior router for other interior routers.'),
    edgeRouterPort: port.optional().describe('Port of an interior router for edge routers.'),
    upstreamRouters: atomicList(text({ min: 1, max: BOUNDS.anyName }), BOUNDS.upstreams)
      .optional()
      .describe('Routers that this one connects to.'),
    networkRouter: text({ max: BOUNDS.anyName }).optional().describe('Router used with routerMode none.'),
    busMode: oneOf('none', 'leaf', 'server').optional().describe('Message bus server on the node.'),
    busServerPort: port.optional().describe('Client port of the bus.'),
    busLeafPort: port.optional().describe('Leaf port of the bus.'),
    busClusterPort: port.optional().describe('Cluster port of the bus.'),
    busMqttPort: port.optional().describe('MQTT port of the bus.'),
    busHttpPort: port.optional().describe('Monitoring port of the bus.'),
    busClientTls: z
      .boolean()
      .optional()
      .describe('Clients of the bus server have to connect by TLS. False when absent.'),
    upstreamBusServers: atomicList(text({ min: 1, max: BOUNDS.anyName }), BOUNDS.upstreams)
      .optional()
      .describe('Bus servers that this one connects to.'),
    jsStorageSize: storeSizeSchema.optional().describe('Size of the persistent store on disk.'),
    jsMemoryStoreSize: storeSizeSchema.optional().describe('Size of the persistent store in memory.'),
  }),
  [
    nameRule,
    isSystemRule,
    { rule: 'requires', field: 'latitude', needs: 'longitude', message: 'latitude needs longitude' },
    { rule: 'requires', field: 'longitude', needs: 'latitude', message: 'longitude needs latitude' },
  ],
);

const unixMs = integer(0, Number.MAX_SAFE_INTEGER);
const counter = integer(0, Number.MAX_SAFE_INTEGER);
const quantity = z.number().min(0);
const note = text({ max: 256 });

/** The observation of one microservice by the node; written only when it changes. */
const observedMicroserviceSchema = object({
  uuid: text({ min: 1, max: 64 }).describe('uuid of the microservice.'),
  application: text({ max: BOUNDS.name }).optional().describe('Its application.'),
  name: text({ max: BOUNDS.name }).optional().describe('Its name.'),
  revision: text({ max: 64 }).optional().describe('Revision of the desired state that really runs.'),
  imageId: text({ max: BOUNDS.images }).optional().describe('Image that really runs, as the engine names it.'),
  image: text({ max: BOUNDS.images }).optional().describe('Reference of the image that really runs.'),
  containerId: text({ max: 128 }).optional().describe('Container that runs it.'),
  state: text({ min: 1, max: 32 }).describe('State as the node reports it.'),
  reason: text({ max: 64 }).optional().describe('Machine-readable reason of the state.'),
  healthStatus: text({ max: 32 }).optional().describe('Result of its health check.'),
  healthMessage: text({ max: BOUNDS.healthMessage })
    .optional()
    .describe('Exit code and output of its health check while it fails.'),
  ports: atomicList(
    object({
      internal: port.describe('Port inside the container.'),
      external: port.describe('Port of the node.'),
      protocol: oneOf('tcp', 'udp').default('tcp').describe('Protocol.'),
    }),
    BOUNDS.ports,
  )
    .optional()
    .describe('Ports of the node that it holds.'),
  ipAddress: text({ max: 64 }).optional().describe('Address of the container on the node.'),
  startTime: unixMs.optional().describe('When the container started, Unix ms by the clock of the controller.'),
  errorMessage: text({ max: BOUNDS.message }).optional().describe('What is wrong now.'),
  lastError: text({ max: BOUNDS.message }).optional().describe('How it last ended unexpectedly.'),
  lastErrorAt: unixMs.optional().describe('When that was, Unix ms.'),
  restartCount: counter.optional().describe('Restarts since the last requested rebuild.'),
  lastEndTime: unixMs.optional().describe('When it was last seen to have ended by itself, Unix ms.'),
  isUnsteady: z.boolean().optional().describe('It ended twice within a minute, and has not run for a minute since.'),
  rebuildCount: counter.optional().describe('Rebuilds carried out.'),
  sent: object({
    revision: text({ max: 64 }).describe('Revision.'),
    imageId: text({ max: BOUNDS.images }).describe('Image reference.'),
    rebuildCount: counter.describe('Rebuilds requested.'),
    at: unixMs.describe('When it was first sent, Unix ms.'),
  })
    .optional()
    .describe('What was last sent to an agent that does not say what it carried out.'),
  notHonoured: atomicList(
    object({ field: text({ max: 64 }).describe('Field.'), reason: note.describe('Why.') }),
    BOUNDS.notHonoured,
  )
    .optional()
    .describe('Fields that the agent or its engine cannot honour.'),
});
export type ObservedMicroservice = z.infer<typeof observedMicroserviceSchema>;

const observedArtifactSchema = object({
  uuid: text({ min: 1, max: 64 }).describe('Identity of the Model or Knowledge.'),
  name: text({ max: BOUNDS.name }).describe('Its name.'),
  state: text({ max: 32 }).describe('Pending, Pulling, Ready or Failed.'),
  digest: text({ max: 128 }).optional().describe('Digest of the content that is ready.'),
  resolvedRevision: text({ max: 128 })
    .optional()
    .describe('What the revision meant when it was pulled: a manifest digest, or a commit of the hub.'),
  pulledFor: text({ max: 64 }).optional().describe('Fingerprint of what the content that is ready was pulled for.'),
  lastError: note.optional().describe('Why the last pull failed.'),
});
export type ObservedArtifact = z.infer<typeof observedArtifactSchema>;
const observedArtifacts = () => mapList(observedArtifactSchema, ['uuid'], BOUNDS.artifacts).optional();

/** Effective settings of the machine, as its agent reports them. */
const effectiveSettingsSchema = object({
  networkInterface: text({ max: 64 }).optional().describe('Effective networkInterface.'),
  containerEngine: text({ max: 32 }).optional().describe('Effective containerEngine.'),
  containerEngineUrl: text({ max: BOUNDS.url }).optional().describe('Effective containerEngineUrl.'),
  diskLimit: quantity.optional().describe('Effective diskLimit.'),
  diskDirectory: text({ max: BOUNDS.path }).optional().describe('Effective diskDirectory.'),
  memoryLimit: quantity.optional().describe('Effective memoryLimit.'),
  cpuLimit: quantity.optional().describe('Effective cpuLimit.'),
  logLimit: quantity.optional().describe('Effective logLimit.'),
  logDirectory: text({ max: BOUNDS.path }).optional().describe('Effective logDirectory.'),
  logFileCount: counter.optional().describe('Effective logFileCount.'),
  logLevel: text({ max: 16 }).optional().describe('Effective logLevel.'),
  statusFrequency: quantity.optional().describe('Effective statusFrequency.'),
  changeFrequency: quantity.optional().describe('Effective changeFrequency.'),
  watchdogEnabled: z.boolean().optional().describe('Effective watchdogEnabled.'),
  edgeGuardFrequency: counter.optional().describe('Effective edgeGuardFrequency.'),
  gpsMode: text({ max: 32 }).optional().describe('Effective gpsMode.'),
  gpsDevice: text({ max: BOUNDS.path }).optional().describe('Effective gpsDevice.'),
  gpsScanFrequency: counter.optional().describe('Effective gpsScanFrequency.'),
  latitude: z.number().optional().describe('Effective latitude.'),
  longitude: z.number().optional().describe('Effective longitude.'),
  pruningFrequency: counter.optional().describe('Effective pruningFrequency.'),
  availableDiskThreshold: quantity.optional().describe('Effective availableDiskThreshold.'),
  timeZone: text({ max: 64 }).optional().describe('Effective timeZone.'),
});

export const PLATFORM_PHASES = ['Pending', 'Progressing', 'Ready', 'Failed', 'Deleting'] as const;

export const edgeNodeStatusSchema = object({
  observedGeneration: observedGenerationSchema,
  ...identity.recorded,
  conditions: conditionsSchema.optional(),
  daemonStatus: text({ max: 32 })
    .optional()
    .describe('State of the agent: RUNNING, UNKNOWN when silent, NOT_PROVISIONED before the first contact, ...'),
  lastSeenTime: text({ max: 64 })
    .optional()
    .describe(
      'A sign of life, at most five minutes older than the last one while the node is live: the last one before this status was written.',
    ),
  silentSince: text({ max: 64 })
    .optional()
    .describe('The last sign of life of a node that is silent; absent while the node is live.'),
  agent: text({ max: 64 })
    .optional()
    .describe('Version that our agent names in its requests; absent for third-party agents.'),
  version: text({ max: 64 }).optional().describe('Version of the agent as reported.'),
  archId: integer(0, 4).optional().describe('Architecture as the agent reports it.'),
  containerEngine: text({ max: 32 }).optional().describe('Engine as the agent reports it.'),
  ipAddress: text({ max: 64 }).optional().describe('Address of the node in its own network.'),
  ipAddressExternal: text({ max: 64 }).optional().describe('Address that the node has to the outside.'),
  warningMessage: text({ max: BOUNDS.message }).optional().describe('Warning of the agent.'),
  provisionedTime: text({ max: 64 }).optional().describe('When an agent last took this identity.'),
  instance: text({ max: 128 }).optional().describe('Installation that reports for this node.'),
  systemOs: text({ max: 64 }).optional().describe('Operating system.'),
  systemOsVersion: text({ max: 256 }).optional().describe('Version of the operating system.'),
  systemKernelVersion: text({ max: 256 }).optional().describe('Version of the kernel.'),
  systemCpus: counter.optional().describe('Logical CPUs.'),
  systemTotalMemory: quantity.optional().describe('Memory, bytes.'),
  systemTotalDisk: quantity.optional().describe('Disk, bytes.'),
  availableRuntimes: atomicList(text({ max: 64 }), 64)
    .optional()
    .describe('Container runtimes of the engine.'),
  availableCdiDevices: atomicList(text({ max: 256 }), 256)
    .optional()
    .describe('CDI devices of the node.'),
  isReadyToUpgrade: z.boolean().optional().describe('Whether the agent can upgrade itself now.'),
  isReadyToRollback: z.boolean().optional().describe('Whether the agent can go back to its former version now.'),
  update: object({
    state: text({ max: 32 }).describe(
      'Downloading, Retrying, OnTrial, Failed, or Idle with what keeps the agent from a change.',
    ),
    version: text({ max: 64 }).optional().describe('Version that it is about.'),
    message: text({ max: BOUNDS.message }).optional().describe('What it waits for, or why it failed.'),
  })
    .optional()
    .describe('What the agent says of the change of its version; absent while there is nothing to say.'),
  config: effectiveSettingsSchema.optional().describe('Settings that are in effect on the machine.'),
  refusedSettings: atomicList(
    object({ field: text({ max: 64 }).describe('Field of the spec.'), reason: note.describe('Why.') }),
    32,
  )
    .optional()
    .describe('Settings of the spec that the machine refuses.'),
  actions: object({
    reboot: counter.optional().describe('Reboots.'),
    prune: counter.optional().describe('Prunings.'),
    version: counter.optional().describe('Version commands.'),
    reconcile: counter.optional().describe('Platform reconciles.'),
  })
    .optional()
    .describe('Actions carried out, as counted by the annotations.'),
  tunnel: object({
    remotePort: port.describe('Port of the ssh server that leads to the machine.'),
    state: oneOf('open', 'closing', 'closed').describe(
      'open: the port belongs to this node; closing: until the machine says that it has ended the tunnel; closed: another node may get the port.',
    ),
  })
    .optional()
    .describe('The tunnel that the annotation skerry.dev/tunnel asks for; absent before the first one.'),
  tunnelStatus: object({
    status: text({ max: 32 }).describe('opening, open, closed or failed.'),
    message: text({ max: 256 }).optional().describe('Why it failed.'),
  })
    .optional()
    .describe('What the machine says of its tunnel.'),
  versionTime: text({ max: 64 }).optional().describe('When the last version command was carried out (RFC 3339).'),
  platformStatus: object({
    phase: oneOf(...PLATFORM_PHASES).describe('Phase of the platform reconcile.'),
    generation: counter.describe('Generation asked for.'),
    observedGeneration: counter.describe('Generation that was carried out.'),
    lastError: text({ max: BOUNDS.message }).optional().describe('Why the last attempt failed.'),
    lastTransitionAt: text({ max: 64 }).optional().describe('When the phase last changed (RFC 3339).'),
  })
    .optional()
    .describe('Result of the platform reconcile (router, bus, certificates).'),
  microservices: mapList(observedMicroserviceSchema, ['uuid'], BOUNDS.report)
    .optional()
    .describe('What the node observed of its microservices.'),
  microserviceList: text({ max: 64 })
    .optional()
    .describe('Digest of the list of microservices that the last report follows; agents that do not say it have none.'),
  models: observedArtifacts().describe('What the node observed of its models.'),
  knowledge: observedArtifacts().describe('What the node observed of its knowledge.'),
  volumeMounts: mapList(
    object({
      uuid: text({ min: 1, max: 64 }).describe('Identity of the VolumeMount.'),
      size: counter.describe('Characters of its keys and of its content in base64.'),
    }),
    ['uuid'],
    BOUNDS.sentVolumeMounts,
  )
    .optional()
    .describe('What the node was sent of its volume mounts: it comes before what others ask for later.'),
  systemFiles: object({
    digest: text({ max: 64 }).describe('Digest of the list whose files are all on the machine.'),
    problem: text({ max: BOUNDS.message }).optional().describe('What keeps the machine from having the present ones.'),
    sets: mapOf(text({ max: 16 }), BOUNDS.reportedFileSets)
      .optional()
      .describe('Digests of the sets of the platform that are whole on the machine, by name.'),
  })
    .optional()
    .describe('Files of the system on the machine, as its agent reports them.'),
  busServer: object({
    isCurrent: z.boolean().describe('It has every token and the configuration of the files on the machine.'),
    problem: text({ max: BOUNDS.message }).optional().describe('What keeps it from that.'),
  })
    .optional()
    .describe('The running bus server of the machine, as its agent reports it.'),
  router: object({
    isCurrent: z.boolean().describe('It has the configuration and the certificates of the files on the machine.'),
    problem: text({ max: BOUNDS.message }).optional().describe('What keeps it from that.'),
    links: atomicList(text({ min: 1, max: BOUNDS.name }), BOUNDS.upstreams)
      .optional()
      .describe('Routers that it is connected to: uuids of their nodes, or default-router.'),
  })
    .optional()
    .describe('The running router of the machine, as its agent reports it.'),
  microserviceCount: text({ max: 32 }).optional().describe('Running of all reported microservices, for example 5/6.'),
});

export const edgeNodeResource = {
  kind: 'EdgeNode',
  plural: 'edgenodes',
  singular: 'edgenode',
  shortNames: ['en'],
  description: 'A machine outside the cluster on which an agent runs containers.',
  spec: edgeNodeSpecSchema,
  status: edgeNodeStatusSchema.default({ observedGeneration: -1 }),
  identity,
  conditions: [
    'Ready',
    'Reconciling',
    'Stalled',
    'DuplicateAgent',
    'DatastoreRestored',
    'Updating',
    'UpdateFailed',
    'ActionIgnored',
    'TunnelFailed',
    'SettingsRefused',
    'ContentLeftOut',
    'CertificatesReady',
    'RouterReady',
    'BusReady',
    'NotSupportedYet',
  ],
  selectableFields: ['.status.uuid', '.spec.uuid', '.spec.name', '.status.daemonStatus'],
  printerColumns: [
    READY_COLUMN,
    { name: 'Status', type: 'string', jsonPath: '.status.daemonStatus', description: 'State of the agent.' },
    {
      name: 'Microservices',
      type: 'string',
      jsonPath: '.status.microserviceCount',
      description: 'Running of all reported.',
    },
    { name: 'Version', type: 'string', jsonPath: '.status.version', description: 'Version of the agent.' },
    {
      name: 'Last-Seen',
      type: 'date',
      jsonPath: '.status.silentSince',
      description: 'Age of the last sign of life of a silent node; empty while the node is live.',
    },
    AGE_COLUMN,
    { name: 'Address', type: 'string', jsonPath: '.status.ipAddress', priority: 1 },
    { name: 'Engine', type: 'string', jsonPath: '.status.containerEngine', priority: 1 },
    { name: 'UUID', type: 'string', jsonPath: '.status.uuid', priority: 1 },
    {
      name: 'Updating',
      type: 'string',
      jsonPath: '.status.conditions[?(@.type=="Updating")].message',
      priority: 1,
      description: 'What a requested change of the version of the agent waits for.',
    },
    {
      name: 'Confirmed',
      type: 'date',
      jsonPath: '.status.lastSeenTime',
      priority: 1,
      description:
        'Age of the last sign of life that is written here. A live node is written every five minutes at least: more means that the node is silent, or that no controller writes.',
    },
    { name: 'Message', type: 'string', jsonPath: '.status.conditions[?(@.type=="Ready")].message', priority: 1 },
  ],
} satisfies ResourceDefinition;

export type EdgeNodeSpec = z.infer<typeof edgeNodeSpecSchema>;
export type EdgeNodeStatus = z.infer<typeof edgeNodeStatusSchema>;
export type EdgeNode = CustomResource<EdgeNodeSpec, EdgeNodeStatus>;
