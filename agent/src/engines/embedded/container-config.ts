import type { ContainerRecord } from './record.ts';
import { namespacesOf, RECORD_LABEL } from './sandbox-config.ts';
import type { containerConfig } from './wire/cri.ts';
import type { Given, Of } from './wire/protobuf.ts';

export type ContainerConfig = Given<Of<typeof containerConfig>>;

const MIB = 1024 * 1024;
const CPU_PERIOD = 100_000;
/** A mount in either place shows in the other one from then on only where it is asked for. */
const PRIVATE = 0;

/** The container of a start of a record, as far as CRI has a word for it; `specOf` adds the rest. Pure. */
export function containerOf(
  record: Pick<ContainerRecord, 'id' | 'spec' | 'imageId'>,
  context: ContainerContext,
): ContainerConfig {
  const { id, spec, imageId } = record;
  const { fields } = spec;
  const { memoryLimit = 0, memorySwap = 0, cpus, cpuSetCpus } = fields;
  return {
    metadata: { name: 'main', attempt: context.attempt },
    image: { image: imageId },
    command: fields.entrypoint ?? [],
    args: fields.commands ?? [],
    workingDir: fields.workingDir ?? '',
    env: spec.env.map(variable),
    mounts: [
      { target: '/etc/hosts', source: context.hostsFile, propagation: PRIVATE },
      ...spec.mounts.map(({ source, target, readOnly, relabel }) => ({ target, source, readOnly, relabel })),
    ],
    devices: (fields.devices ?? []).map(({ hostPath, containerPath, permissions }) => ({
      target: containerPath,
      source: hostPath,
      permissions,
    })),
    labels: { [RECORD_LABEL]: id },
    logPath: context.logFile,
    linux: {
      resources: {
        ...(cpus && { cpuPeriod: CPU_PERIOD, cpuQuota: Math.round(cpus * CPU_PERIOD) }),
        memoryLimit: memoryLimit * MIB,
        cpus: cpuSetCpus ?? '',
        memoryAndSwap: memorySwap > 0 ? memorySwap * MIB : memorySwap,
      },
      security: {
        capabilities: { add: fields.capAdd ?? [], drop: fields.capDrop ?? [] },
        ...(fields.isPrivileged ? { privileged: true } : { seccomp: {} }),
        namespaces: namespacesOf(spec),
        user: spec.user ?? '',
        readOnlyRoot: fields.readOnlyRootFilesystem === true,
      },
    },
    cdiDevices: spec.cdiDevices.map((name) => ({ name })),
  };
}

export interface ContainerContext {
  attempt: number;
  hostsFile: string;
  /** below the log directory of the sandbox */
  logFile: string;
}

function variable(text: string): { key: string; value: Buffer } {
  const at = text.indexOf('=');
  return { key: text.slice(0, at), value: Buffer.from(text.slice(at + 1)) };
}
