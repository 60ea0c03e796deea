import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { digestOf } from '../../../src/wire/digest.ts';

/**
 * The container digest: a hash of everything in the desired view that is baked into a container. It is stamped on the
 * container as a label, and a container whose label differs is replaced.
 *
 * Guarantees: members that equal their default take no part, so a new member of the view with a default changes no
 * digest; the order of env, ports, volumes and the like takes no part. The golden test pins values across versions,
 * because a changed digest would recreate every container of a fleet on an upgrade of the agent.
 */
export function containerDigest(view: MicroserviceView): string {
  return `${FORM}${digestOf(containerForm(view))}`;
}

/** Names the form below. It changes only when equal views must lead to new containers. */
const FORM = 'c1-';

function containerForm(view: MicroserviceView): Record<string, unknown> {
  const commands = view.commands.length > 0 ? view.commands : view.cmd;
  return {
    application: view.application,
    name: view.name,
    image: view.imageId,
    annotations: filled(stringMap(view.annotations)),
    hostNetworkMode: view.hostNetworkMode || undefined,
    isPrivileged: view.isPrivileged || undefined,
    readOnlyRootFilesystem: view.readOnlyRootFilesystem || undefined,
    pidMode: view.pidMode || undefined,
    ipcMode: view.ipcMode || undefined,
    cpuSetCpus: view.cpuSetCpus || undefined,
    runAsUser: view.runAsUser || undefined,
    runAsGroup: view.runAsGroup || undefined,
    platform: view.platform || undefined,
    runtime: view.runtime || undefined,
    workingDir: view.workingDir || undefined,
    cpus: view.cpus,
    memoryLimit: view.memoryLimit,
    memoryReservation: view.memoryReservation,
    memorySwap: view.memorySwap,
    shmSize: view.shmSize,
    logSize: view.logSize || undefined,
    portMappings: sorted(
      view.portMappings.map(({ internal, external, protocol }) => ({ internal, external, protocol })),
    ),
    volumeMappings: sorted(
      view.volumeMappings.map(({ hostDestination, containerDestination, accessMode, type, scope }) => ({
        hostDestination,
        containerDestination,
        accessMode,
        type,
        scope: type === 'volume' ? scope : undefined,
      })),
    ),
    env: sorted(view.env.map(({ key, value }) => ({ key, value }))),
    extraHosts: sorted(view.extraHosts),
    commands: filled(commands),
    entrypoint: filled(view.entrypoint),
    cdiDevices: sorted(view.cdiDevices),
    capAdd: sorted(view.capAdd),
    capDrop: sorted(view.capDrop),
    healthCheck: view.healthCheck.test.length > 0 ? view.healthCheck : undefined,
    sysctls: filled(view.sysctls),
    ulimits: filled(view.ulimits),
    devices: sorted(view.devices),
    tmpfs: sorted(view.tmpfs),
    models: catalog(view.models),
    knowledge: catalog(view.knowledge),
  };
}

/** Which items a catalog holds changes in place; whether there is one, where and how it is mounted does not. */
function catalog(value: MicroserviceView['models']): unknown {
  if (!value || value.items.length === 0) return undefined;
  return { bindPath: value.bindPath, permissions: value.permissions };
}

/** The text form of a string map, as `annotations` travels; anything else reads as empty. */
export function stringMap(text: string): Record<string, string> {
  try {
    const value: unknown = JSON.parse(text);
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return {};
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, String(member)]));
  } catch {
    return {};
  }
}

function filled<T extends object>(value: T): T | undefined {
  return Object.keys(value).length > 0 ? value : undefined;
}

function sorted<T>(items: readonly T[]): T[] | undefined {
  if (items.length === 0) return undefined;
  const keyed = items.map((item) => [digestOf(item), item] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, item]) => item);
}
