import type { MicroserviceStatus } from '../../../src/wire/agent.ts';
import { stringMap } from '../domain/digest.ts';
import type { LocalApiAgent } from './agent.ts';
import { ApiError } from './errors.ts';
import type { Reach } from './grants.ts';

const MIB = 1024 * 1024;
const MASK = '***';

/** `GET /v1/system/status` (docs/spec/agent-local-api.md#status). */
export async function daemonStatus(agent: LocalApiAgent): Promise<Record<string, unknown>> {
  const report = await agent.report(true);
  const { engine } = agent.supervisor;
  const { state, error, lastContact } = agent.connection;
  const items = agent.microservices() ?? [];
  const facts = engine.state === 'connected' ? engine.facts : undefined;
  return {
    daemonStatus: report.daemonStatus,
    controllerConnection: state,
    engine: facts?.kind ?? agent.config.containerEngine ?? '',
    runningMicroservices: items.filter(({ status }) => status === 'RUNNING').length,
    cpuUsagePercent: report.cpuUsage ?? 0,
    memoryUsageMiB: round((report.memoryUsage ?? 0) / MIB),
    diskUsageGiB: report.diskUsage ?? 0,
    uptimeSeconds: Math.round((report.daemonOperatingDuration ?? 0) / 1000),
    availableRuntimes: facts?.runtimes ?? [],
    runtimeClasses: report.runtimeClasses ?? [],
    availableCdiDevices: report.availableCdiDevices ?? [],
    warnings: agent.problems,
    connectionError: error || undefined,
    lastContact: lastContact ? new Date(lastContact).toISOString() : undefined,
    node: agent.identity.node && {
      uuid: agent.identity.node.uuid,
      name: agent.identity.node.name,
      namespace: agent.identity.node.namespace,
      controllerUrl: agent.identity.node.controllerUrl,
    },
    runtime: {
      engine: facts?.kind,
      engineVersion: facts?.version,
      engineUrl: agent.effective().containerEngineUrl,
      engineReady: engine.state === 'connected',
    },
    systemCpus: report.systemCpus,
    systemTotalCpu: report.systemTotalCpu,
    systemTotalMemory: report.systemTotalMemory,
    systemAvailableMemory: report.systemAvailableMemory,
    systemTotalDisk: report.systemTotalDisk,
    systemAvailableDisk: report.systemAvailableDisk,
    systemOs: report.systemOs,
    systemOsVersion: report.systemOsVersion,
    systemKernelVersion: report.systemKernelVersion,
    systemTime: Date.now(),
  };
}

/** `GET /v1/system/info` (docs/spec/agent-local-api.md#info). */
export function daemonInfo(agent: LocalApiAgent): Record<string, unknown> {
  const settings = agent.effective();
  const { node, instance } = agent.identity;
  return {
    nodeUuid: node?.uuid ?? 'not provisioned',
    nodeName: node?.name,
    namespace: node?.namespace ?? 'default',
    controllerUrl: node?.controllerUrl ?? '',
    instance,
    configFile: agent.config.file,
    ...settings,
    secureMode: agent.config.secureMode,
    developerMode: agent.config.devMode,
    architecture: agent.config.arch,
  };
}

/** `GET /v1/system/config` (docs/spec/agent-local-api.md#settings): API names, effective values. */
export function activeConfig(agent: LocalApiAgent): Record<string, unknown> {
  const { config } = agent;
  const settings = agent.effective();
  return {
    controllerUrl: agent.identity.node?.controllerUrl ?? config.controllerUrl ?? '',
    controllerCert: config.controllerCert ?? '',
    containerEngine: settings.containerEngine ?? '',
    containerEngineUrl: settings.containerEngineUrl ?? '',
    networkInterface: settings.networkInterface,
    logLevel: settings.logLevel,
    timezone: settings.timeZone ?? '',
    pruningFrequency: settings.pruningFrequency,
    statusFrequencySeconds: settings.statusFrequency,
    changeFrequencySeconds: settings.changeFrequency,
    diskLimitGiB: settings.diskLimit,
    memoryLimitMiB: settings.memoryLimit,
    cpuLimitPercent: settings.cpuLimit,
    pullRateLimitMiB: config.pullRateLimit,
    watchdogEnabled: settings.watchdogEnabled,
    secureMode: config.secureMode,
    devMode: config.devMode,
    diskDirectory: config.diskDirectory,
    logLimitGiB: settings.logLimit,
    logDirectory: config.logDirectory ?? '',
    logFileCount: settings.logFileCount,
    edgeGuardFrequency: settings.edgeGuardFrequency,
    gpsMode: settings.gpsMode,
    gpsCoordinates: config.gpsCoordinates,
    gpsDevice: settings.gpsDevice ?? '',
    gpsScanFrequency: settings.gpsScanFrequency,
    arch: config.arch,
    availableDiskThreshold: settings.availableDiskThreshold,
    upgradeScanFrequency: config.upgradeScanFrequency,
  };
}

/** The source of the microservices: a controller, or, after its membership ended, the machine itself. */
export function sourceOf(agent: LocalApiAgent): 'managed' | 'local' {
  return agent.identity.node ? 'managed' : 'local';
}

/** A microservice as people know it; its uuid where nothing else is known. */
export function nameOf(agent: LocalApiAgent, uuid: string): string {
  const { application, name } = agent.supervisor.record(uuid) ?? {};
  return application && name ? `${application}.${name}` : uuid;
}

/** The image that a microservice runs, and the one that it is to run where that is another. */
function imagesOf(agent: LocalApiAgent, status: MicroserviceStatus): { image: string; wantedImage?: string } {
  const wanted = agent.view(status.id)?.imageId;
  const image = (status.containerId && (status.image ?? status.imageId)) || wanted || '';
  return image === wanted ? { image } : { image, wantedImage: wanted };
}

/** An item of `GET /v1/ms`. */
export function listItem(agent: LocalApiAgent, status: MicroserviceStatus): Record<string, unknown> {
  return {
    uuid: status.id,
    name: status.name ?? '',
    application: status.application ?? '',
    source: sourceOf(agent),
    type: sourceOf(agent),
    state: status.status,
    reason: status.reason,
    ...imagesOf(agent, status),
    containerId: status.containerId ?? '',
    podId: status.podId,
    restartCount: status.restartCount,
    percentage: status.percentage,
    startTime: status.startTime,
    healthStatus: status.healthStatus,
    healthMessage: status.healthMessage,
    errorMessage: status.errorMessage || undefined,
    cpuUsage: status.cpuUsage,
    memoryUsage: status.memoryUsage,
    ports: status.ports,
  };
}

/** `GET /v1/ms/{id}` (docs/spec/agent-local-api.md#microservices). What came from Secrets is masked. */
export function inspection(agent: LocalApiAgent, status: MicroserviceStatus): Record<string, unknown> {
  const view = agent.view(status.id);
  const row = agent.supervisor.record(status.id);
  const container = agent.supervisor.containers.find(({ id }) => id === status.containerId);
  return {
    ...listItem(agent, status),
    imageId: status.imageId,
    revision: status.revision,
    statusText: statusText(status),
    ipAddress: status.ipAddress,
    createdAt: undefined,
    updatedAt: container?.startedAt ? new Date(container.startedAt).toISOString() : undefined,
    env: Object.fromEntries((view?.env ?? []).map(({ key, value, secret }) => [key, secret ? MASK : value])),
    ports: view?.portMappings ?? [],
    labels: stringMap(view?.annotations ?? '{}'),
    volumes: view?.volumeMappings ?? [],
    models: view?.models,
    knowledge: view?.knowledge,
    lastError: status.lastError,
    lastErrorAt: status.lastErrorAt,
    heldLocally: row?.stoppedLocally !== undefined,
    notHonoured: status.notHonoured ?? [],
    desiredRevision: view?.revision,
  };
}

function statusText({ status, reason, errorMessage, percentage }: MicroserviceStatus): string {
  const parts = [status, reason && `(${reason})`, percentage !== undefined && `${percentage} %`]
    .filter(Boolean)
    .join(' ');
  return errorMessage ? `${parts}: ${errorMessage}` : parts;
}

/**
 * The microservice that a selector means: its uuid, `application.name` or `application/name`, its name where that is unique, or the beginning
 * of its container's id.
 */
export function findMicroservice(agent: LocalApiAgent, selector: string, reach: Reach): MicroserviceStatus {
  const items = agent.microservices()?.filter(reach);
  if (!items) throw new ApiError('UNAVAILABLE', 'the container engine has not been looked at yet');
  const lower = selector.toLowerCase();
  const rules: ((item: MicroserviceStatus) => boolean)[] = [
    ({ id }) => id === selector,
    ({ application, name }) => ['.', '/'].some((between) => `${application}${between}${name}`.toLowerCase() === lower),
    ({ name }) => name?.toLowerCase() === lower,
    ({ containerId }) => /^[0-9a-f]{3,64}$/.test(lower) && containerId?.startsWith(lower) === true,
  ];
  for (const rule of rules) {
    const found = items.filter(rule);
    if (found.length > 1) {
      const names = found.map(({ application, name, id }) => `${application}.${name} (${id})`).join(', ');
      throw new ApiError('INVALID_ARGUMENT', `"${selector}" means several microservices: ${names}`);
    }
    if (found[0]) return found[0];
  }
  throw new ApiError('NOT_FOUND', `no microservice "${selector}" on this node`);
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}
