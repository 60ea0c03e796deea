import { type AgentConfig, agentConfigSchema } from '../../../src/wire/agent.ts';
import { type Config, LOG_LEVELS } from './config.ts';
import type { EngineFacts } from './engine.ts';

/** The sources of the settings in force. */
export interface SettingsSources {
  /** what the machine chose */
  config: Config;
  /** what the controller wants */
  wanted: AgentConfig;
  /** its kind is not known while it is not connected */
  engine: { kind: EngineFacts['kind'] | undefined; url: string };
  /** names of foreign containers on the same engine, as far as the watchdog has looked */
  foreignContainers: readonly string[];
}

/** Settings that only the machine chooses; values of a controller are refused and reported. */
const MACHINE_SETTINGS: readonly (keyof AgentConfig)[] = [
  'containerEngine',
  'containerEngineUrl',
  'diskDirectory',
  'logDirectory',
];

/** The settings in force: those of the controller where allowed, otherwise those of the machine. */
export function settingsInForce(sources: SettingsSources): AgentConfig {
  const { config, wanted, engine } = sources;
  const own = agentConfigSchema.partial().parse({
    networkInterface: config.networkInterface,
    containerEngine: engine.kind ?? config.containerEngine,
    containerEngineUrl: engine.url,
    diskLimit: config.diskLimit,
    diskDirectory: config.diskDirectory,
    memoryLimit: config.memoryLimit,
    cpuLimit: config.cpuLimit,
    logLimit: config.logLimit,
    logDirectory: config.logDirectory,
    logFileCount: config.logFileCount,
    statusFrequency: config.statusFrequency,
    changeFrequency: config.changeFrequency,
    watchdogEnabled: false,
    edgeGuardFrequency: config.edgeGuardFrequency,
    gpsMode: config.gpsMode,
    gpsScanFrequency: config.gpsScanFrequency,
    logLevel: config.logLevel,
    pruningFrequency: config.pruningFrequency,
    availableDiskThreshold: config.availableDiskThreshold,
    timeZone: config.timeZone,
  } satisfies AgentConfig);
  const refused = new Set(refusedSettings(sources).map(({ field }) => field));
  const taken = Object.entries(wanted).filter(([key]) => !refused.has(key));
  return { ...own, ...Object.fromEntries(taken) };
}

/** The settings of the controller that are not in force, each with the reason. */
export function refusedSettings({
  config,
  wanted,
  foreignContainers,
}: Pick<SettingsSources, 'config' | 'wanted' | 'foreignContainers'>): { field: string; reason: string }[] {
  const refused: { field: string; reason: string }[] = [];
  for (const field of MACHINE_SETTINGS)
    if (wanted[field] !== undefined && wanted[field] !== config[field as keyof Config])
      refused.push({ field, reason: 'only the machine itself chooses this' });
  if (isWatching(config, wanted)) refused.push({ field: 'watchdogEnabled', reason: watchdogReport(foreignContainers) });
  const level = wanted.logLevel?.toUpperCase();
  if (level !== undefined && !(LOG_LEVELS as readonly string[]).includes(level))
    refused.push({ field: 'logLevel', reason: `one of ${LOG_LEVELS.join(', ')}` });
  for (const field of ['statusFrequency', 'changeFrequency'] as const)
    if (wanted[field] === 0) refused.push({ field, reason: 'at least 1' });
  return refused;
}

/** of a refused setting in a report */
const REASON_LENGTH = 256;

/** Whether it was asked for, here or by the controller. */
export function isWatching(config: Pick<Config, 'watchdogEnabled'>, wanted: { watchdogEnabled?: boolean }): boolean {
  return wanted.watchdogEnabled === true || config.watchdogEnabled;
}

/**
 * The report of the watchdog, cut to the length that the wire allows. The owners of the containers are unknown, so none is
 * removed.
 */
function watchdogReport(foreignContainers: readonly string[]): string {
  const reason = 'this agent never removes containers that are not its own';
  if (foreignContainers.length === 0) return reason;
  const text = `${reason}; there ${foreignContainers.length === 1 ? 'is 1' : `are ${foreignContainers.length}`}: ${foreignContainers.join(', ')}`;
  return text.length <= REASON_LENGTH ? text : `${text.slice(0, REASON_LENGTH - 4)} ...`;
}
