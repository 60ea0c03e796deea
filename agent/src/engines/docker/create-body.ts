import { isIP } from 'node:net';
import type { ContainerSpec } from '../../domain/engine.ts';
import type { Dialect } from './dialect.ts';

const SECOND_IN_NS = 1e9;

/** The body of the Docker API's create call. Pure. */
export function createBody(spec: ContainerSpec, networkName: string, dialect: Dialect): Record<string, unknown> {
  const hasKind = /^(NONE|CMD|CMD-SHELL)$/;
  const health = spec.healthCheck;
  const seconds = (value: number | undefined) => (value ? Math.round(value * SECOND_IN_NS) : undefined);
  return {
    Image: spec.image,
    Labels: spec.labels,
    Env: spec.env,
    Entrypoint: filled(spec.entrypoint),
    Cmd: filled(spec.command),
    WorkingDir: spec.workingDir || undefined,
    User: spec.user,
    ExposedPorts: Object.fromEntries(spec.ports.map(({ internal, protocol }) => [`${internal}/${protocol}`, {}])),
    Healthcheck: health && {
      Test: hasKind.test(health.test[0] ?? '') ? health.test : ['CMD', ...health.test],
      Interval: seconds(health.interval),
      Timeout: seconds(health.timeout),
      StartPeriod: seconds(health.startPeriod),
      StartInterval: seconds(health.startInterval),
      Retries: health.retries || undefined,
    },
    HostConfig: {
      NetworkMode: spec.hostNetwork ? 'host' : networkName,
      // The agent alone supervises.
      RestartPolicy: { Name: 'no' },
      PortBindings: portBindings(spec.ports),
      Mounts: filled(
        spec.mounts
          .filter(({ relabel }) => !relabel)
          .map(({ source, target, readOnly }) => ({
            Type: 'bind',
            Source: source,
            Target: target,
            ReadOnly: readOnly,
          })),
      ),
      // The Mounts form has no word for SELinux labels.
      Binds: filled(
        spec.mounts
          .filter(({ relabel }) => relabel)
          .map(({ source, target, readOnly }) => `${source}:${target}:${readOnly ? 'ro' : 'rw'},z`),
      ),
      Tmpfs: Object.fromEntries(
        spec.tmpfs.map(({ target, size, mode }) => [
          target,
          [size && `size=${size}`, mode && `mode=${mode}`].filter(Boolean).join(','),
        ]),
      ),
      ExtraHosts: filled(
        spec.extraHosts.filter(({ address }) => !isName(address)).map(({ name, address }) => `${name}:${address}`),
      ),
      Privileged: spec.privileged,
      ReadonlyRootfs: spec.readOnlyRoot,
      PidMode: spec.pidMode,
      IpcMode: spec.ipcMode,
      Runtime: spec.runtime || undefined,
      CapAdd: filled(spec.capAdd),
      CapDrop: filled(spec.capDrop),
      Devices: filled(
        spec.devices.map(({ hostPath, containerPath, permissions }) => ({
          PathOnHost: hostPath,
          PathInContainer: containerPath,
          CgroupPermissions: permissions,
        })),
      ),
      DeviceRequests: spec.cdiDevices.length > 0 ? [{ Driver: 'cdi', DeviceIDs: spec.cdiDevices }] : undefined,
      Sysctls: spec.sysctls,
      Ulimits: filled(spec.ulimits.map(({ name, soft, hard }) => ({ Name: name, Soft: soft, Hard: hard }))),
      NanoCpus: spec.cpus && Math.round(spec.cpus * 1e9),
      CpusetCpus: spec.cpuSet,
      Memory: spec.memory,
      MemoryReservation: spec.memoryReservation,
      MemorySwap: spec.memorySwap,
      ShmSize: spec.shmSize,
      LogConfig: dialect.log(Math.round(spec.logMaxBytes / 1024 / 1024)),
    },
    NetworkingConfig: spec.hostNetwork ? undefined : { EndpointsConfig: { [networkName]: endpoint(spec, dialect) } },
  };
}

function portBindings(ports: ContainerSpec['ports']): Record<string, { HostIp: string; HostPort: string }[]> {
  const bindings: Record<string, { HostIp: string; HostPort: string }[]> = {};
  for (const { internal, external, protocol } of ports) {
    const key = `${internal}/${protocol}`;
    bindings[key] = [...(bindings[key] ?? []), { HostIp: '', HostPort: String(external) }];
  }
  return bindings;
}

function filled<T>(items: T[]): T[] | undefined {
  return items.length > 0 ? items : undefined;
}

/** `host-gateway` is the engine's word for the machine itself. */
function isName(address: string): boolean {
  return isIP(address) === 0 && address !== 'host-gateway';
}

/**
 * How the container is known on the network, and under which further names it knows others there. An extra host that
 * names a microservice follows it to whatever address it has: the engine resolves the name when it is asked.
 */
function endpoint({ aliases, extraHosts }: ContainerSpec, dialect: Dialect) {
  if (!dialect.links) return { Aliases: aliases };
  const links = extraHosts.filter(({ address }) => isName(address)).map(({ name, address }) => `${address}:${name}`);
  return { Aliases: aliases, Links: filled(links) };
}
