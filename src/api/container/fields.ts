import { z } from 'zod';
import { BOUNDS } from '../bounds.ts';
import { atomicList, integer, mapList, mapOf, text } from '../schema.ts';
import * as parts from './parts.ts';
import { amount, type FieldRow, flag, list, words } from './row.ts';

/**
 * The container fields of a microservice: one table. From it come the CRD, the flat JSON form and its translation in both
 * directions, what the agent gets, the revision and the container digest, the plain parts of what an engine gets, and the
 * rows of docs/engines.md.
 *
 * A new field is a row here, its translation for the engine in agent/src/engines/docker/create-body.ts unless the row
 * names the member of the API that takes it, and a row of the contract in agent/src/engines/_fields.ts. The compiler
 * refuses what is left out.
 *
 * No field has a default in the CRD: a value that the API server adds to an item of a list looks to client-side apply and
 * to GitOps tools like an edit of the list. The normal form fills in what is absent.
 */
const INT32 = parts.INT32;
const argumentList = atomicList(text({ max: BOUNDS.argument }), BOUNDS.arguments);
const capabilityList = atomicList(
  text({ min: 1, max: 63, pattern: '^[A-Z_]+$', expects: 'a capability such as NET_ADMIN' }),
  BOUNDS.capabilities,
);
const mebibytes = z.number().int().positive();

export const CONTAINER_FIELDS = {
  entrypoint: {
    ...list('Entrypoint', argumentList, "Replaces the image's entrypoint."),
    part: 'value',
    example: ['/bin/app'],
  },
  commands: {
    ...list('Cmd', argumentList, "Replaces the image's command (the arguments of its entrypoint)."),
    alias: { name: 'cmd', description: 'Other spelling of commands.' },
    part: 'value',
    example: ['--flag'],
  },
  workingDir: {
    ...words('WorkingDir', parts.absolutePath, 'Working directory.'),
    default: undefined,
    example: '/srv',
  },
  env: {
    schema: mapList(parts.envSchema, ['key'], BOUNDS.env),
    description: 'Environment variables.',
    wire: z.array(parts.envValueSchema),
    default: [],
    part: 'own',
    secret: true,
    engine: 'own',
    example: [{ key: 'MODE', value: 'fast' }],
  },
  ports: {
    schema: atomicList(parts.portSchema, BOUNDS.ports),
    description: 'Ports of the node that lead into the container.',
    wire: z.array(parts.portMappingSchema),
    wireName: 'portMappings',
    default: [],
    itemDefaults: parts.PORT_DEFAULTS,
    part: 'set',
    secret: false,
    engine: 'own',
    example: [{ internal: 80, external: 8080, protocol: 'udp' }],
  },
  volumes: {
    schema: mapList(parts.volumeSchema, ['containerDestination'], BOUNDS.volumes),
    description: 'Volumes and bind mounts.',
    wire: z.array(parts.volumeMappingSchema),
    flatName: 'volumeMappings',
    wireName: 'volumeMappings',
    default: [],
    itemDefaults: parts.VOLUME_DEFAULTS,
    part: 'own',
    secret: false,
    engine: 'own',
    example: [
      { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume', scope: 'shared' },
    ],
  },
  extraHosts: {
    schema: mapList(parts.extraHostSchema, ['name'], BOUNDS.extraHosts),
    description: 'Further lines of /etc/hosts.',
    /** `name:address` */
    wire: z.array(z.string()),
    default: [],
    part: 'set',
    secret: false,
    engine: 'own',
    example: [{ name: 'db', address: '192.0.2.7' }],
  },
  devices: {
    schema: mapList(parts.deviceSchema, ['containerPath'], BOUNDS.devices),
    description: 'Devices of the node.',
    wire: z.array(parts.deviceMappingSchema),
    default: [],
    itemDefaults: parts.DEVICE_DEFAULTS,
    part: 'set',
    secret: false,
    engine: 'own',
    example: [{ hostPath: '/dev/ttyS0', containerPath: '/dev/tty', permissions: 'rw' }],
  },
  cdiDevices: {
    ...list('own', atomicList(text({ min: 1, max: 256 }), BOUNDS.devices), 'Fully qualified CDI device names.'),
    part: 'set',
    example: ['nvidia.com/gpu=all'],
  },
  tmpfs: {
    schema: mapList(parts.tmpfsSchema, ['containerPath'], BOUNDS.tmpfs),
    description: 'Memory-backed file systems.',
    wire: z.array(parts.tmpfsMountSchema),
    default: [],
    part: 'set',
    secret: false,
    engine: 'own',
    example: [{ containerPath: '/tmp', size: 5, mode: '1777' }],
  },
  hostNetworkMode: flag('own', "Use the node's own network."),
  isPrivileged: flag('HostConfig.Privileged', 'All privileges of the node.'),
  readOnlyRootFilesystem: {
    ...flag('HostConfig.ReadonlyRootfs', 'Mount the root file system read-only.'),
    default: undefined,
    shown: false,
  },
  capAdd: {
    ...list('HostConfig.CapAdd', capabilityList, 'Capabilities to add.'),
    part: 'set',
    example: ['NET_ADMIN'],
  },
  capDrop: {
    ...list('HostConfig.CapDrop', capabilityList, 'Capabilities to drop.'),
    part: 'set',
    example: ['ALL'],
  },
  sysctls: {
    schema: parts.sysctlsSchema,
    description: 'Kernel parameters of the container.',
    wire: z.record(z.string(), z.string()),
    default: {},
    part: 'value',
    secret: false,
    engine: 'HostConfig.Sysctls',
    example: { 'kernel.shm_rmid_forced': '1' },
  },
  ulimits: {
    schema: parts.ulimitsSchema,
    description: 'Resource limits of processes.',
    wire: parts.ulimitValuesSchema,
    default: {},
    part: 'value',
    secret: false,
    engine: 'own',
    example: { nofile: { soft: 10, hard: -1 } },
  },
  pidMode: {
    ...words('HostConfig.PidMode', text({ max: 64 }), 'Process namespace: empty or "host".'),
    example: 'host',
  },
  ipcMode: {
    ...words('HostConfig.IpcMode', text({ max: 64 }), 'IPC namespace: empty, "private", "shareable" or "host".'),
    example: 'private',
  },
  runAsUser: { ...words('own', text({ max: 128 }), 'User, or user:group.'), example: '1000' },
  runAsGroup: {
    ...words('own', text({ max: 64 }), 'Group; not together with user:group in runAsUser.'),
    default: undefined,
    example: '1000',
  },
  platform: {
    ...words('own', text({ max: 64 }), 'Platform of the image, for example linux/arm64.'),
    example: 'linux/amd64',
  },
  runtime: {
    ...words(
      'HostConfig.Runtime',
      text({ max: BOUNDS.name }),
      "Name of a RuntimeClass whose handler is among the node's available runtimes.",
    ),
    example: 'crun',
  },
  cpus: {
    ...amount('HostConfig.NanoCpus', z.number().gt(0).max(4096), z.number().positive(), 'CPU cores.'),
    unit: 'cores',
    example: 0.5,
  },
  cpuSetCpus: {
    ...words(
      'HostConfig.CpusetCpus',
      text({ max: 128, pattern: '^[0-9,-]*$', expects: 'a CPU list such as 0-2,4' }),
      'Cores to run on.',
    ),
    example: '0-1',
  },
  memoryLimit: {
    ...amount('HostConfig.Memory', integer(1, INT32), mebibytes, 'Memory limit in MiB.'),
    unit: 'MiB',
    example: 100,
  },
  memoryReservation: {
    ...amount('HostConfig.MemoryReservation', integer(1, INT32), mebibytes, 'Memory reservation in MiB.'),
    unit: 'MiB',
    example: 50,
  },
  memorySwap: {
    ...amount(
      'HostConfig.MemorySwap',
      integer(-1, INT32),
      z.number().int().min(-1),
      'Memory and swap together in MiB, -1 = unlimited swap.',
    ),
    unit: 'MiB',
    example: -1,
  },
  shmSize: {
    ...amount('HostConfig.ShmSize', integer(1, INT32), mebibytes, 'Size of /dev/shm in MiB.'),
    unit: 'MiB',
    example: 10,
  },
  healthCheck: {
    schema: parts.healthCheckSchema,
    description: 'Health check; unhealthy is reported, not restarted.',
    wire: parts.healthProbeSchema,
    default: { test: [] },
    shown: {},
    part: 'own',
    secret: false,
    engine: 'own',
    example: { test: ['CMD', 'true'], interval: 5, timeout: 1, startPeriod: 1, startInterval: 1, retries: 3 },
  },
  logSize: {
    ...amount('own', integer(0, INT32), z.number().int().min(0), 'Size of the container log in MiB, 0 = 10.'),
    default: 0,
    shown: 10,
    unit: 'MiB',
    example: 3,
  },
  annotations: {
    schema: mapOf(text({ max: BOUNDS.annotationValue }), BOUNDS.annotations),
    description: 'Labels of the container; keys under skerry.dev/ are refused.',
    /** JSON text of a string map, also in the flat form */
    wire: z.string(),
    default: '{}',
    part: 'own',
    secret: false,
    engine: 'own',
    example: { team: 'shore' },
  },
} as const satisfies Record<string, FieldRow>;

/** The name of a container field, as entries have it. */
export type ContainerField = keyof typeof CONTAINER_FIELDS;
export const CONTAINER_FIELD_NAMES = Object.keys(CONTAINER_FIELDS) as readonly ContainerField[];

/** A row for code that treats all fields alike: every member is present, `shown` and the names filled in. */
export type Row = Readonly<FieldRow & { flatName: string; wireName: string }>;

/** All rows have the same members in the same order, which makes property access fast. */
const ABSENT = { default: undefined, alias: undefined, itemDefaults: undefined, unit: undefined };

const ROWS = Object.fromEntries(
  CONTAINER_FIELD_NAMES.map((name): [string, Row] => {
    const row: FieldRow = CONTAINER_FIELDS[name];
    return [
      name,
      {
        ...ABSENT,
        ...row,
        shown: row.shown ?? row.default,
        flatName: row.flatName ?? name,
        wireName: row.wireName ?? name,
      },
    ];
  }),
) as Readonly<Record<ContainerField, Row>>;

export const fieldRow = (field: ContainerField): Row => ROWS[field];

/** Whether a value of a field means the same as its absence: it is empty, false, or the default. */
export function isAbsent(field: ContainerField, value: unknown): boolean {
  if (value === undefined || value === null || value === '' || value === false) return true;
  if (typeof value !== 'object') return value === fieldRow(field).default;
  if (Array.isArray(value)) return value.length === 0;
  for (const _ in value) return false;
  return true;
}
