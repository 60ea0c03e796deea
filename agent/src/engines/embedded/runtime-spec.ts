import type { ContainerSpec } from '../../engine-port/container-spec.ts';

const MIB = 1024 * 1024;

/** What the agent changes of the specification that CRI made for the runtime (OCI runtime specification). */
export interface RuntimeSpec {
  process?: {
    args?: string[];
    env?: string[];
    terminal?: boolean;
    rlimits?: { type: string; soft: number; hard: number }[];
  } & Record<string, unknown>;
  mounts?: { destination: string; type?: string; source?: string; options?: string[] }[];
  linux?: { resources?: { memory?: { reservation?: number } } } & Record<string, unknown>;
  [member: string]: unknown;
}

/**
 * The specification of the runtime with what CRI has no word for: limits of processes, file systems in memory, the size of
 * /dev/shm and the soft limit of memory. It is read again when the container starts. Pure.
 */
export function withOwnFields(made: RuntimeSpec, { fields, ulimits }: ContainerSpec): RuntimeSpec {
  const { tmpfs = [], shmSize, memoryReservation } = fields;
  const own = [
    ...tmpfs.map(memoryFileSystem),
    ...(shmSize && fields.ipcMode !== 'host' ? [sharedMemory(shmSize)] : []),
  ];
  const taken = new Set(own.map(({ destination }) => destination));
  return {
    ...made,
    process: {
      ...made.process,
      ...(ulimits.length > 0 && {
        rlimits: ulimits.map(({ name, soft, hard }) => ({
          type: `RLIMIT_${name.toUpperCase()}`,
          soft: limit(soft),
          hard: limit(hard),
        })),
      }),
    },
    // In this order: a mount covers what was mounted below it before.
    mounts: [...(made.mounts ?? []).filter(({ destination }) => !taken.has(destination)), ...own].sort(
      (a, b) => depthOf(a.destination) - depthOf(b.destination),
    ),
    linux: {
      ...made.linux,
      resources: {
        ...made.linux?.resources,
        memory: {
          ...made.linux?.resources?.memory,
          ...(memoryReservation && { reservation: memoryReservation * MIB }),
        },
      },
    },
  };
}

const depthOf = (path: string) => path.split('/').filter(Boolean).length;

type TmpfsField = NonNullable<ContainerSpec['fields']['tmpfs']>[number];

const memoryFileSystem = ({ containerPath, size, mode }: TmpfsField) => ({
  destination: containerPath,
  type: 'tmpfs',
  source: 'tmpfs',
  options: ['noexec', 'nosuid', 'nodev', ...(size ? [`size=${size * MIB}`] : []), ...(mode ? [`mode=${mode}`] : [])],
});

const sharedMemory = (size: number) => ({
  destination: '/dev/shm',
  type: 'tmpfs',
  source: 'shm',
  options: ['noexec', 'nosuid', 'nodev', 'mode=1777', `size=${size * MIB}`],
});

/** A number that JavaScript would round, as JSON writes it. The compiler does not know the function yet. */
const { rawJSON } = JSON as unknown as { rawJSON(text: string): number };
/** 2^64 - 1 */
const NO_LIMIT = rawJSON('18446744073709551615');
const limit = (value: number) => (value === -1 ? NO_LIMIT : value);

/** A specification from its bytes; numbers that JavaScript would round stay as they are. */
export const readSpec = (bytes: Buffer): RuntimeSpec => JSON.parse(bytes.toString(), exactly) as RuntimeSpec;

const exactly = (_key: string, value: unknown, context?: { source?: string }) =>
  typeof value === 'number' && !Number.isSafeInteger(value) && /^\d+$/.test(context?.source ?? '')
    ? rawJSON(context?.source ?? '')
    : value;

/** The bytes of a specification, or of a part of one. */
export const specBytes = (spec: object): Buffer => Buffer.from(JSON.stringify(spec));
