import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { dottedName, uuidSchema } from '../meta.ts';
import { type Rule, withRules } from '../rules.ts';
import {
  anyJson,
  atomicList,
  closedObject,
  integer,
  integerOrText,
  mapList,
  mapOf,
  object,
  oneOf,
  text,
} from '../schema.ts';

/**
 * A microservice: an entry of its Application, as a container is of a Pod. The form is that of the v3 YAML kind
 * (docs/spec/workloads.md#microservice-entry), aliases included; domain/microservice reads one normal form.
 *
 * Nothing in here has a default of the CRD: what the API server adds to an item of a list looks to client-side apply and
 * to GitOps tools as if somebody had changed the list. The normal form fills in what is absent.
 */

const INT32 = 2 ** 31 - 1;
const absolutePath = text({ min: 1, max: BOUNDS.path, pattern: '^/.*$', expects: 'an absolute path' });
const imageReference = text({
  min: 1,
  max: BOUNDS.images,
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:/@-]*$',
  expects: 'an image reference such as registry.example/team/app:1.2',
});
const portNumber = integer(1, 65535);

export const SYSCTLS = [
  'kernel.shm_rmid_forced',
  'net.ipv4.ip_local_port_range',
  'net.ipv4.tcp_syncookies',
  'net.ipv4.ping_group_range',
  'net.ipv4.ip_unprivileged_port_start',
  'net.ipv4.ip_local_reserved_ports',
  'net.ipv4.tcp_keepalive_time',
  'net.ipv4.tcp_fin_timeout',
  'net.ipv4.tcp_keepalive_intvl',
  'net.ipv4.tcp_keepalive_probes',
  'net.ipv4.tcp_rmem',
  'net.ipv4.tcp_wmem',
  'net.ipv4.tcp_slow_start_after_idle',
  'net.ipv4.tcp_notsent_lowat',
] as const;

export const ULIMITS = [
  'core',
  'cpu',
  'data',
  'fsize',
  'locks',
  'memlock',
  'msgqueue',
  'nice',
  'nofile',
  'nproc',
  'rss',
  'rtprio',
  'rttime',
  'sigpending',
  'stack',
] as const;

const fieldsOf = <K extends string, T extends z.ZodType>(keys: readonly K[], what: string, schema: T) =>
  Object.fromEntries(keys.map((key) => [key, schema.optional().describe(`${what} ${key}.`)])) as Record<
    K,
    z.ZodOptional<T>
  >;

export const agentRefSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.anyName }).optional().describe('Name of the EdgeNode.'),
    uuid: uuidSchema.optional().describe('uuid of the EdgeNode.'),
  }),
  [{ rule: 'exactlyOne', of: ['name', 'uuid'], message: 'agent needs exactly one of name and uuid' }],
);

export const imagesSchema = withRules(
  object({
    amd64: imageReference.optional().describe('Image for amd64 nodes.'),
    x86: imageReference.optional().describe('Older spelling of amd64.'),
    arm64: imageReference.optional().describe('Image for arm64 nodes.'),
    riscv64: imageReference.optional().describe('Image for riscv64 nodes.'),
    riscv: imageReference.optional().describe('Older spelling of riscv64.'),
    arm: imageReference.optional().describe('Image for 32-bit arm nodes.'),
    registry: integerOrText(BOUNDS.name)
      .optional()
      .describe(
        'Registry to pull from: its id or its name; "remote" (1) is the public hub, "local" (2) the node\'s own image cache.',
      ),
    catalogId: integerOrText(BOUNDS.name)
      .optional()
      .describe('Catalog item that names the images; images and registry are then ignored.'),
  }),
  [
    { rule: 'atMostOne', of: ['amd64', 'x86'], message: 'amd64 and x86 are two spellings of one image: give one' },
    {
      rule: 'atMostOne',
      of: ['riscv64', 'riscv'],
      message: 'riscv64 and riscv are two spellings of one image: give one',
    },
  ],
);

export const portSchema = object({
  internal: portNumber.describe('Port inside the container.'),
  external: portNumber.describe('Port of the node.'),
  protocol: oneOf('tcp', 'udp').optional().describe('Protocol, tcp or udp; tcp when absent.'),
});

const REFERENCE = text({ min: 3, max: BOUNDS.name * 2, pattern: '^[^/]+/.+$', expects: '<name>/<key>' });
export const envSchema = withRules(
  object({
    key: text({ min: 1, max: BOUNDS.name, pattern: '^[^=]+$', expects: 'a variable name without "="' }).describe(
      'Name of the variable.',
    ),
    value: text({ max: BOUNDS.envValue }).optional().describe('Literal value.'),
    valueFromSecret: REFERENCE.optional().describe(
      '`name/key` of a shareable Secret (label skerry.dev/shareable=true).',
    ),
    valueFromConfigMap: REFERENCE.optional().describe(
      '`name/key` of a shareable ConfigMap (label skerry.dev/shareable=true).',
    ),
  }),
  [
    {
      rule: 'exactlyOne',
      of: ['value', 'valueFromSecret', 'valueFromConfigMap'],
      message: 'an env variable needs exactly one of value, valueFromSecret and valueFromConfigMap',
    },
  ],
);

export const volumeSchema = object({
  hostDestination: text({ min: 1, max: BOUNDS.path }).describe(
    'bind: absolute path on the node; volume: name of a volume; volumeMount: <mount>[/<key>].',
  ),
  containerDestination: absolutePath.describe('Path in the container.'),
  accessMode: oneOf('ro', 'rw').describe('ro or rw.'),
  type: oneOf('bind', 'volume', 'volumeMount').optional().describe('What hostDestination names; bind when absent.'),
  scope: oneOf('private', 'shared')
    .optional()
    .describe('Of a volume: its own, or shared by name on the node; private when absent.'),
});

export const extraHostSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.name }).describe('Host name.'),
    address: text({ min: 1, max: BOUNDS.name }).describe(
      'Address, or ${Agents.<node>}, or ${Apps.<app>.<microservice>.local}.',
    ),
  }),
  [{ rule: 'not', field: 'name', value: 'service.local', message: 'the host name service.local is reserved' }],
);

export const deviceSchema = object({
  hostPath: text({ min: 6, max: BOUNDS.path, pattern: '^/dev/.+$', expects: 'a path under /dev/' }).describe(
    'Device of the node.',
  ),
  containerPath: text({ min: 1, max: BOUNDS.path }).describe('Path in the container.'),
  permissions: text({ min: 1, max: 3, pattern: '^[rwm]{1,3}$', expects: 'letters of rwm' })
    .optional()
    .describe('Letters of rwm; all when absent.'),
});

export const tmpfsSchema = object({
  containerPath: absolutePath.describe('Path in the container.'),
  size: integer(1, INT32).optional().describe('Size in MiB.'),
  mode: text({ max: 8, pattern: '^[0-7]{3,4}$', expects: 'an octal mode such as 1777' })
    .optional()
    .describe('Octal mode.'),
});

export const healthCheckSchema = withRules(
  object({
    test: atomicList(text({ max: BOUNDS.argument }), BOUNDS.arguments)
      .optional()
      .describe('Probe as the OCI health check has it: ["CMD", ...], ["CMD-SHELL", "..."] or ["NONE"].'),
    interval: integer(0, INT32).optional().describe('Seconds between probes.'),
    timeout: integer(0, INT32).optional().describe('Seconds until a probe counts as failed.'),
    startPeriod: integer(0, INT32).optional().describe('Seconds after the start in which failures do not count.'),
    startInterval: integer(0, INT32).optional().describe('Seconds between probes in the start period.'),
    retries: integer(0, INT32).optional().describe('Failures in a row until unhealthy.'),
  }),
  [
    {
      rule: 'beginsWith',
      field: 'test',
      words: ['CMD', 'CMD-SHELL', 'NONE'],
      message: 'the test of a health check begins with CMD, CMD-SHELL or NONE',
    },
    ...(['interval', 'timeout', 'startPeriod', 'startInterval', 'retries'] as const).map((field) => ({
      rule: 'requires' as const,
      field,
      needs: 'test',
      filled: true as const,
      message: `${field} of a health check needs test`,
    })),
  ],
);

const ulimitSchema = withRules(
  object({
    soft: integer(-1, Number.MAX_SAFE_INTEGER).describe('Soft limit, -1 = unlimited.'),
    hard: integer(-1, Number.MAX_SAFE_INTEGER).describe('Hard limit, -1 = unlimited.'),
  }),
  [
    {
      rule: 'ordered',
      low: 'soft',
      high: 'hard',
      message: 'soft must not exceed hard, and be -1 only when hard is -1',
    },
  ],
);

const NET_SYSCTLS = SYSCTLS.filter((key) => key.startsWith('net.'));
const IPC_SYSCTLS = SYSCTLS.filter((key) => key.startsWith('kernel.shm'));

const argumentList = (description: string) =>
  atomicList(text({ max: BOUNDS.argument }), BOUNDS.arguments)
    .optional()
    .describe(description);
const capabilityList = (description: string) =>
  atomicList(
    text({ min: 1, max: 63, pattern: '^[A-Z_]+$', expects: 'a capability such as NET_ADMIN' }),
    BOUNDS.capabilities,
  )
    .optional()
    .describe(description);

export const containerSchema = withRules(
  object({
    entrypoint: argumentList("Replaces the image's entrypoint."),
    commands: argumentList("Replaces the image's command (the arguments of its entrypoint)."),
    cmd: argumentList('Other spelling of commands.'),
    workingDir: absolutePath.optional().describe('Working directory.'),
    env: mapList(envSchema, ['key'], BOUNDS.env).optional().describe('Environment variables.'),
    ports: atomicList(portSchema, BOUNDS.ports).optional().describe('Ports of the node that lead into the container.'),
    volumes: mapList(volumeSchema, ['containerDestination'], BOUNDS.volumes)
      .optional()
      .describe('Volumes and bind mounts.'),
    extraHosts: mapList(extraHostSchema, ['name'], BOUNDS.extraHosts)
      .optional()
      .describe('Further lines of /etc/hosts.'),
    devices: mapList(deviceSchema, ['containerPath'], BOUNDS.devices).optional().describe('Devices of the node.'),
    cdiDevices: atomicList(text({ min: 1, max: 256 }), BOUNDS.devices)
      .optional()
      .describe('Fully qualified CDI device names.'),
    tmpfs: mapList(tmpfsSchema, ['containerPath'], BOUNDS.tmpfs).optional().describe('Memory-backed file systems.'),
    hostNetworkMode: z.boolean().optional().describe("Use the node's own network."),
    isPrivileged: z.boolean().optional().describe('All privileges of the node.'),
    readOnlyRootFilesystem: z.boolean().optional().describe('Mount the root file system read-only.'),
    capAdd: capabilityList('Capabilities to add.'),
    capDrop: capabilityList('Capabilities to drop.'),
    sysctls: closedObject(fieldsOf(SYSCTLS, 'Kernel parameter', integerOrText(256)))
      .optional()
      .describe('Kernel parameters of the container.'),
    ulimits: closedObject(fieldsOf(ULIMITS, 'Limit', ulimitSchema))
      .optional()
      .describe('Resource limits of processes.'),
    pidMode: text({ max: 64 }).optional().describe('Process namespace: empty or "host".'),
    ipcMode: text({ max: 64 }).optional().describe('IPC namespace: empty, "private", "shareable" or "host".'),
    runAsUser: text({ max: 128 }).optional().describe('User, or user:group.'),
    runAsGroup: text({ max: 64 }).optional().describe('Group; not together with user:group in runAsUser.'),
    platform: text({ max: 64 }).optional().describe('Platform of the image, for example linux/arm64.'),
    runtime: text({ max: BOUNDS.name })
      .optional()
      .describe("RuntimeClass; must be among the node's available runtimes."),
    cpus: z.number().gt(0).max(4096).optional().describe('CPU cores.'),
    cpuSetCpus: text({ max: 128, pattern: '^[0-9,-]*$', expects: 'a CPU list such as 0-2,4' })
      .optional()
      .describe('Cores to run on.'),
    memoryLimit: integer(1, INT32).optional().describe('Memory limit in MiB.'),
    memoryReservation: integer(1, INT32).optional().describe('Memory reservation in MiB.'),
    memorySwap: integer(-1, INT32).optional().describe('Memory and swap together in MiB, -1 = unlimited swap.'),
    shmSize: integer(1, INT32).optional().describe('Size of /dev/shm in MiB.'),
    healthCheck: healthCheckSchema.optional().describe('Health check; unhealthy is reported, not restarted.'),
    logSize: integer(0, INT32).optional().describe('Size of the container log in MiB, 0 = 10.'),
    annotations: mapOf(text({ max: BOUNDS.annotationValue }), BOUNDS.annotations)
      .optional()
      .describe('Labels of the container; keys under skerry.dev/ are refused.'),
  }),
  [
    {
      rule: 'unique',
      list: 'ports',
      by: { internal: 0, protocol: 'tcp' },
      message: 'a port of the container is mapped once for each protocol',
    },
    {
      rule: 'atMostOne',
      of: ['commands', 'cmd'],
      message: 'commands and cmd are two spellings of one field: give one',
    },
    {
      rule: 'unique',
      list: 'ports',
      by: { external: 0, protocol: 'tcp' },
      message: 'two ports have the same external port and protocol',
    },
    { rule: 'not', field: 'memorySwap', value: 0, message: 'memorySwap must be -1 or greater than 0' },
    {
      rule: 'requires',
      field: 'memorySwap',
      needs: 'memoryLimit',
      positive: true,
      message: 'memorySwap needs memoryLimit',
    },
    {
      rule: 'containsExcludes',
      field: 'runAsUser',
      part: ':',
      other: 'runAsGroup',
      message: 'runAsUser with a group excludes runAsGroup',
    },
    {
      rule: 'trueExcludesKeys',
      field: 'hostNetworkMode',
      other: 'sysctls',
      keys: NET_SYSCTLS,
      message: 'net.* sysctls cannot be set in host network mode',
    },
    {
      rule: 'equalsExcludesKeys',
      field: 'ipcMode',
      value: 'host',
      other: 'sysctls',
      keys: IPC_SYSCTLS,
      message: 'IPC sysctls cannot be set with ipcMode host',
    },
  ],
);

const catalogRules: Rule[] = [
  { rule: 'together', field: 'bindPath', list: 'items', message: 'bindPath and items need each other' },
];
const catalogSchema = (what: string) =>
  withRules(
    object({
      bindPath: text({ max: BOUNDS.path, pattern: '^(/.*)?$', expects: 'an absolute path' })
        .optional()
        .describe('Path in the container under which the items appear.'),
      permissions: oneOf('ro', 'rw').optional().describe('ro or rw; ro when absent.'),
      items: mapList(
        object({ name: dottedName(BOUNDS.entryName).describe(`Name of a ${what}.`) }),
        ['name'],
        BOUNDS.catalogItems,
      )
        .optional()
        .describe(`${what} items by name.`),
    }),
    catalogRules,
  );

export const templateRefSchema = object({
  name: text({ min: 1, max: BOUNDS.anyName }).describe('Name of the template.'),
  variables: anyJson().optional().describe('Values of its variables: a map, or a list of {key, value}.'),
});

export const busConfigSchema = closedObject({
  busAccess: z.boolean().optional().describe('Whether credentials for the message bus are issued.'),
  busRule: text({ min: 1, max: BOUNDS.anyName }).optional().describe('Name of the rule that limits them.'),
});

export const roleRefSchema = object({
  kind: text({ max: 63 }).optional().describe('Role.'),
  name: text({ min: 1, max: BOUNDS.name }).describe('Name of the role.'),
  apiGroup: text({ max: BOUNDS.name }).optional().describe('API group of the role.'),
});

export const microserviceRules: Rule[] = [
  { rule: 'immutableOnceSet', field: 'uuid', message: 'uuid is immutable once set' },
  {
    rule: 'atMostOne',
    of: ['busConfig', 'busEnabled'],
    message: 'busConfig and busEnabled are two spellings of one setting: give one',
  },
];

export const microserviceSchema = withRules(
  object({
    name: dottedName(BOUNDS.entryName).describe('Name, unique in the application.'),
    uuid: uuidSchema
      .optional()
      .describe('Identity; derived from the application and the name when absent. Immutable once set.'),
    isActivated: z.boolean().optional().describe('false stops the microservice; true when absent.'),
    agent: agentRefSchema.optional().describe('The node it runs on.'),
    images: imagesSchema.optional().describe('Images by architecture.'),
    config: anyJson()
      .optional()
      .describe(
        'Configuration that the microservice reads over the local API of its agent; any JSON of at most 64 KiB.',
      ),
    minReadySeconds: integer(0, 3600)
      .optional()
      .describe(
        'Seconds that it must run before it counts as ready, unless its health check succeeds first; 0 when absent. Starts nothing anew.',
      ),
    schedule: integer(0, 100).optional().describe('Start order: lower starts first and stops last; 50 when absent.'),
    container: containerSchema.optional().describe('How the container runs.'),
    models: catalogSchema('Model').optional().describe('Models projected into the container.'),
    knowledge: catalogSchema('Knowledge').optional().describe('Knowledge projected into the container.'),
    template: templateRefSchema.optional().describe('MicroserviceTemplate that this entry overlays.'),
    serviceAccount: object({ roleRef: roleRefSchema.describe('Role of the workload in the local API of its agent.') })
      .optional()
      .describe('Service account of the workload.'),
    busConfig: busConfigSchema.optional().describe('Access to the message bus.'),
    busEnabled: z.boolean().optional().describe('Other spelling of busConfig.busAccess.'),
  }),
  microserviceRules,
);

/** One entry as stored, aliases included. */
export type MicroserviceEntry = z.infer<typeof microserviceSchema>;
export type ContainerSpec = z.infer<typeof containerSchema>;
