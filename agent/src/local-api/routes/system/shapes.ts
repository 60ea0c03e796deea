import { z } from 'zod';
import {
  type AgentConfig,
  agentConfigSchema,
  type MicroserviceStatus,
  type StatusReport,
  statusReportSchema,
} from '../../../../../src/wire/agent.ts';
import { TUNNEL_STATES, type TunnelReport } from '../../../../../src/wire/tunnel.ts';
import type { Config } from '../../../domain/config.ts';
import { shownUrl } from '../../../domain/position-lookup.ts';
import type { MicroserviceRecord } from '../../../domain/record.ts';
import type { EngineFacts } from '../../../engine-port/facts.ts';
import type { Identity } from '../../../state/identity.ts';

const MIB = 1024 * 1024;

/** What status, info and settings are made from. */
export interface DescribedAgent {
  readonly config: Config;
  readonly identity: Pick<Identity, 'node' | 'instance'>;
  /** `lastContact` in Unix ms */
  readonly connection: { state: string; error: string; lastContact: number };
  readonly problems: string[];
  /** undefined without one */
  readonly tunnel: TunnelReport | undefined;
  readonly supervisor: {
    readonly engine: { state: 'connecting' | 'lost' } | { state: 'connected'; facts: EngineFacts };
  };
  /** the settings in force */
  effective(): AgentConfig;
  report(measurements: boolean): Promise<StatusReport>;
  /** undefined until the engine was read once */
  microservices(): readonly MicroserviceStatus[] | undefined;
}

/** `GET /v1/system/status` (docs/spec/agent-local-api.md#status). */
export async function daemonStatus(agent: DescribedAgent) {
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
    tunnel: agent.tunnel,
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
export function daemonInfo(agent: DescribedAgent) {
  const settings = agent.effective();
  const { node, instance } = agent.identity;
  return {
    nodeUuid: node?.uuid ?? 'not provisioned',
    nodeName: node?.name,
    namespace: node?.namespace ?? agent.config.namespace,
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
export function activeConfig(agent: DescribedAgent) {
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
    gpsLookupUrl: shownUrl(config.gpsLookupUrl),
    availableDiskThreshold: settings.availableDiskThreshold,
    upgradeScanFrequency: config.upgradeScanFrequency,
    namespace: config.namespace,
    bridgeCidr: config.bridgeCidr ?? '',
    shutdownPolicy: config.shutdownPolicy,
    shutdownGracePeriodSeconds: config.shutdownGracePeriodSeconds,
    controllerRequestTimeoutSeconds: config.controllerRequestTimeoutSeconds,
    controllerPingTimeoutSeconds: config.controllerPingTimeoutSeconds,
  };
}

/** What the names of microservices are from. */
export interface NamingAgent {
  readonly supervisor: { record(uuid: string): Pick<MicroserviceRecord, 'application' | 'name'> | undefined };
}

/** A microservice as people know it; its uuid where nothing else is known. */
export function nameOf(agent: NamingAgent, uuid: string): string {
  const { application, name } = agent.supervisor.record(uuid) ?? {};
  return application && name ? `${application}.${name}` : uuid;
}

function round(value: number): number {
  return Math.round(value * 100) / 100;
}

/** The schema of `GET /v1/system/status`. */
export const statusReply = () => {
  const { shape: report } = statusReportSchema;
  const text = z.string();
  const count = z.number();
  return z.object({
    daemonStatus: report.daemonStatus,
    controllerConnection: text,
    engine: text.describe('its kind; empty while none is known'),
    ...{ runningMicroservices: count, cpuUsagePercent: count, memoryUsageMiB: count },
    ...{ diskUsageGiB: count, uptimeSeconds: count },
    availableRuntimes: z.array(text),
    runtimeClasses: report.runtimeClasses,
    availableCdiDevices: z.array(text),
    warnings: z.array(text).describe('what keeps the agent from its work, for people'),
    tunnel: z
      .object({ status: z.enum(TUNNEL_STATES), message: text.optional() })
      .optional()
      .describe('the tunnel that the controller asked for'),
    connectionError: text.optional(),
    lastContact: text.optional(),
    node: z.object({ uuid: text, name: text.optional(), namespace: text, controllerUrl: text }).optional(),
    runtime: z.object({
      engine: text.optional(),
      engineVersion: text.optional(),
      engineUrl: text.optional(),
      engineReady: z.boolean(),
    }),
    ...{ systemCpus: report.systemCpus, systemTotalCpu: report.systemTotalCpu },
    ...{ systemTotalMemory: report.systemTotalMemory, systemAvailableMemory: report.systemAvailableMemory },
    ...{ systemTotalDisk: report.systemTotalDisk, systemAvailableDisk: report.systemAvailableDisk },
    ...{ systemOs: report.systemOs, systemOsVersion: report.systemOsVersion },
    systemKernelVersion: report.systemKernelVersion,
    systemTime: count.describe('Unix ms'),
  });
};

/** The schema of `GET /v1/system/info`: identity, and the settings in force. */
export const infoReply = () => {
  const text = z.string();
  return agentConfigSchema.extend({
    ...{ nodeUuid: text, nodeName: text.optional(), namespace: text, controllerUrl: text, instance: text },
    ...{ configFile: text, secureMode: z.boolean(), developerMode: z.boolean(), architecture: text },
  });
};

/** The schema of `GET /v1/system/config`: settings by the names of this API. */
export const settingsReply = () => z.record(z.string(), z.union([z.string(), z.number(), z.boolean()]).optional());
