import type { ContainerRecord } from './record.ts';
import { NAMESPACES, type sandboxConfig } from './wire/cri.ts';
import type { Given, Of } from './wire/protobuf.ts';

export type SandboxConfig = Given<Of<typeof sandboxConfig>>;

/** Of the containers of CRI: the record that they run. */
export const RECORD_LABEL = 'skerry.dev/record';

const PROTOCOLS = { tcp: 0, udp: 1 } as const;
/** Of a sandbox, in the words of CRI. */
const NAMESPACE = 'skerry';

interface SandboxContext {
  attempt: number;
  logDirectory: string;
  nameServers: readonly string[];
  searches: readonly string[];
  cgroupParent: string;
}

/** The sandbox of a start of a record: its network, its ports and its namespaces. Pure. */
export function sandboxOf({ id, spec }: Pick<ContainerRecord, 'id' | 'spec'>, context: SandboxContext): SandboxConfig {
  const { fields, ports } = spec;
  return {
    metadata: { name: id, uid: id, namespace: NAMESPACE, attempt: context.attempt },
    ...(!fields.hostNetworkMode && { hostname: hostnameOf(id) }),
    logDirectory: context.logDirectory,
    dns: { servers: context.nameServers, searches: context.searches },
    ports: ports.map(({ internal, external, protocol }) => ({
      protocol: PROTOCOLS[protocol],
      containerPort: internal,
      hostPort: external,
    })),
    labels: { [RECORD_LABEL]: id },
    linux: {
      cgroupParent: context.cgroupParent,
      security: {
        namespaces: namespacesOf(spec),
        ...(fields.isPrivileged ? { privileged: true } : { seccomp: {} }),
      },
      sysctls: fields.sysctls ?? {},
    },
  };
}

/** Which namespaces a container has for itself and which are the machine's. */
export const namespacesOf = ({ fields }: ContainerRecord['spec']) => ({
  network: fields.hostNetworkMode ? NAMESPACES.machine : NAMESPACES.sandbox,
  pid: fields.pidMode === 'host' ? NAMESPACES.machine : NAMESPACES.container,
  ipc: fields.ipcMode === 'host' ? NAMESPACES.machine : NAMESPACES.sandbox,
});

export const hostnameOf = (id: string): string => id.slice(0, 12);
