import { createHmac } from 'node:crypto';
import { BUILT_IN_REGISTRIES } from '../../api/names.ts';
import { canonicalJson, digestOf, type MicroserviceView } from '../../wire/index.ts';

/** Names the form below. It changes only when equal views must lead to new containers on the whole fleet. */
const FORM = 'r1-';

/**
 * Revision of a view: a versioned hash of its non-default fields that need a new container. Config, schedule, rebuild
 * orders and the items of catalogs take no part; nor does the order of env, ports, volumes and the like. Members that
 * equal their default take no part either, so that a new optional field changes no revision. The golden test pins
 * values, because a changed revision says that every container of a fleet is out of date.
 *
 * Revisions stand in statuses, so values of Secrets enter them only keyed: without `key` the revision knows that a
 * variable comes from a Secret, not what it holds.
 */
export function revisionOf(view: MicroserviceView, key?: string): string {
  // most members are absent, and canonical JSON is not cheap
  const form = Object.entries(containerForm(view, key)).filter(([, value]) => value !== undefined);
  return `${FORM}${digestOf(Object.fromEntries(form))}`;
}

function containerForm(view: MicroserviceView, key: string | undefined): Record<string, unknown> {
  return {
    application: view.application,
    name: view.name,
    image: view.imageId,
    registry: view.registryId === BUILT_IN_REGISTRIES.remote.id ? undefined : view.registryId,
    annotations: view.annotations === '{}' ? undefined : view.annotations,
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
      view.portMappings.map(({ internal, external, protocol }) => ({
        internal,
        external,
        protocol: unless('tcp', protocol),
      })),
    ),
    volumeMappings: sorted(
      view.volumeMappings.map(({ hostDestination, containerDestination, accessMode, type, scope }) => ({
        hostDestination,
        containerDestination,
        accessMode,
        type: unless('bind', type),
        scope: type === 'volume' ? unless('private', scope) : undefined,
      })),
    ),
    env: sorted(view.env.map((item) => envForm(item, key))),
    extraHosts: sorted(view.extraHosts),
    commands: filled(view.commands),
    entrypoint: filled(view.entrypoint),
    cdiDevices: sorted(view.cdiDevices),
    capAdd: sorted(view.capAdd),
    capDrop: sorted(view.capDrop),
    healthCheck: healthCheckForm(view.healthCheck),
    sysctls: filled(view.sysctls),
    ulimits: filled(view.ulimits),
    devices: sorted(
      view.devices.map(({ hostPath, containerPath, permissions }) => ({
        hostPath,
        containerPath,
        permissions: unless('rwm', permissions),
      })),
    ),
    tmpfs: sorted(view.tmpfs.map(({ containerPath, size, mode }) => ({ containerPath, size, mode }))),
    models: catalogForm(view.models),
    knowledge: catalogForm(view.knowledge),
  };
}

function envForm({ key: name, value, secret }: MicroserviceView['env'][number], key: string | undefined): unknown {
  if (!secret) return { name, value };
  const keyed =
    key &&
    createHmac('sha256', key)
      .update(JSON.stringify([name, value]))
      .digest('hex');
  return { name, secret: keyed || true };
}

function healthCheckForm({
  test,
  interval,
  timeout,
  startPeriod,
  startInterval,
  retries,
}: MicroserviceView['healthCheck']) {
  return test.length > 0 ? { test, interval, timeout, startPeriod, startInterval, retries } : undefined;
}

/** Which items a catalog holds changes in place; whether there is one, where and how it is mounted does not. */
function catalogForm(catalog: MicroserviceView['models']): unknown {
  if (!catalog?.items.length) return undefined;
  return { bindPath: catalog.bindPath, permissions: unless('ro', catalog.permissions) };
}

const unless = <T>(standard: T, value: T): T | undefined => (value === standard ? undefined : value);

const filled = <T extends object>(value: T): T | undefined => (Object.keys(value).length > 0 ? value : undefined);

function sorted(items: readonly unknown[]): unknown[] | undefined {
  if (items.length === 0) return undefined;
  const keyed = items.map((item) => [canonicalJson(item), item] as const);
  return keyed.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)).map(([, item]) => item);
}
