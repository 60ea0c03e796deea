import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { withRules } from '../rules.ts';
import { atomicList, closedObject, integer, integerOrText, object, oneOf, text } from '../schema.ts';

/**
 * The container fields that have members of their own. Each has two schemas: that of an entry, for the CRD and for
 * REST, and that of an agent, with defaults for absent members. An agent reads tolerantly: it drops unknown
 * members, and does not validate again what the controller has validated.
 */

export const INT32 = 2 ** 31 - 1;
const positive = z.number().int().positive();
const count = z.number().int().min(0);

export const absolutePath = text({ min: 1, max: BOUNDS.path, pattern: '^/.*$', expects: 'an absolute path' });
const portNumber = integer(1, 65535);

export const PORT_DEFAULTS = { protocol: 'tcp' } as const;

export const portSchema = object({
  internal: portNumber.describe('Port inside the container.'),
  external: portNumber.describe('Port of the node.'),
  protocol: oneOf('tcp', 'udp').optional().describe('Protocol, tcp or udp; tcp when absent.'),
});

export const portMappingSchema = z.object({
  internal: portNumber,
  external: portNumber,
  protocol: z.enum(['tcp', 'udp']).default(PORT_DEFAULTS.protocol),
});
export type PortMapping = z.infer<typeof portMappingSchema>;

/** Names of environment variables that programs can be expected to read; others are stored, with a warning. */
export const VARIABLE_NAME = '^[A-Za-z_.-][A-Za-z0-9_.-]*$';
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

export const envValueSchema = z.object({
  key: z.string(),
  value: z.string(),
  /** not part of v3: the value comes from a Secret; the local API masks it */
  secret: z.boolean().optional(),
});

export const VOLUME_DEFAULTS = { type: 'bind', scope: 'private' } as const;

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

export const volumeMappingSchema = z.object({
  hostDestination: z.string().max(BOUNDS.path),
  containerDestination: z.string().max(BOUNDS.path),
  accessMode: z.enum(['ro', 'rw']).default('rw'),
  type: z.enum(['bind', 'volume', 'volumeMount', 'serviceAccount']).default(VOLUME_DEFAULTS.type),
  scope: z.enum(['private', 'shared']).default(VOLUME_DEFAULTS.scope),
  /** ours: names the content of the one key that is mounted, and changes with it */
  content: z.string().max(64).optional(),
});
export type VolumeMapping = z.infer<typeof volumeMappingSchema>;

export const extraHostSchema = withRules(
  object({
    name: text({ min: 1, max: BOUNDS.name }).describe('Host name.'),
    address: text({ min: 1, max: BOUNDS.name }).describe(
      'Address, or ${Agents.<node>}, or ${Apps.<app>.<microservice>.local}.',
    ),
  }),
  [{ rule: 'not', field: 'name', value: 'service.local', message: 'the host name service.local is reserved' }],
);

export const DEVICE_DEFAULTS = { permissions: 'rwm' } as const;

export const deviceSchema = object({
  hostPath: text({ min: 6, max: BOUNDS.path, pattern: '^/dev/.+$', expects: 'a path under /dev/' }).describe(
    'Device of the node.',
  ),
  containerPath: text({ min: 1, max: BOUNDS.path }).describe('Path in the container.'),
  permissions: text({ min: 1, max: 3, pattern: '^[rwm]{1,3}$', expects: 'letters of rwm' })
    .optional()
    .describe('Letters of rwm; all when absent.'),
});

export const deviceMappingSchema = z.object({
  hostPath: z.string(),
  containerPath: z.string(),
  permissions: z.string().default(DEVICE_DEFAULTS.permissions),
});

export const tmpfsSchema = object({
  containerPath: absolutePath.describe('Path in the container.'),
  size: integer(1, INT32).optional().describe('Size in MiB.'),
  mode: text({ max: 8, pattern: '^[0-7]{3,4}$', expects: 'an octal mode such as 1777' })
    .optional()
    .describe('Octal mode.'),
});

export const tmpfsMountSchema = z.object({
  containerPath: z.string(),
  size: positive.optional(),
  mode: z.string().optional(),
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

export const healthProbeSchema = z.object({
  test: z.array(z.string().max(BOUNDS.argument)).default([]),
  interval: z.number().min(0).optional(),
  timeout: z.number().min(0).optional(),
  startPeriod: z.number().min(0).optional(),
  startInterval: z.number().min(0).optional(),
  retries: count.optional(),
});

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

const membersOf = <K extends string, T extends z.ZodType>(keys: readonly K[], what: string, schema: T) =>
  Object.fromEntries(keys.map((key) => [key, schema.optional().describe(`${what} ${key}.`)])) as Record<
    K,
    z.ZodOptional<T>
  >;

export const sysctlsSchema = closedObject(membersOf(SYSCTLS, 'Kernel parameter', integerOrText(256)));
export const ulimitsSchema = closedObject(membersOf(ULIMITS, 'Limit', ulimitSchema));
export const ulimitValuesSchema = z.record(z.string(), z.object({ soft: z.number().int(), hard: z.number().int() }));
