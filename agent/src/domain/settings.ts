import { type AgentConfig, agentConfigSchema } from '../../../src/wire/agent.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import { type Config, type SettingName, settingError } from './config.ts';
import { type Coordinates, coordinatesIn } from './position.ts';
import { isTimeZone } from './time-zone.ts';

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
  /** whether the machine has a network interface with an address */
  hasInterface(name: string): boolean;
  /** what gpsMode auto or dynamic has found */
  position?: Coordinates | undefined;
}

/** Settings that only the machine chooses; values of a controller are refused and reported. */
const MACHINE_SETTINGS: readonly (keyof AgentConfig)[] = [
  'containerEngine',
  'containerEngineUrl',
  'diskDirectory',
  'logDirectory',
];

/** The settings of the machine that may be in force. */
const OWN_SETTINGS = agentConfigSchema.partial();

/** The settings in force: those of the controller where allowed, otherwise those of the machine. */
export function settingsInForce(sources: SettingsSources): AgentConfig {
  const { config, engine } = sources;
  const own = OWN_SETTINGS.parse({
    ...config,
    containerEngine: engine.kind ?? config.containerEngine,
    containerEngineUrl: engine.url,
    watchdogEnabled: isRemoving(config, sources.wanted),
    ...coordinatesIn(config.gpsCoordinates),
  });
  const { latitude, longitude, ...settings } = { ...own, ...controlledSettings(sources) } as AgentConfig;
  if (settings.gpsMode === 'manual') return { ...settings, latitude, longitude };
  return settings.gpsMode === 'off' ? settings : { ...settings, ...sources.position };
}

/** The settings that the controller has set, without those that are refused. */
export function controlledSettings(sources: SettingsSources): AgentConfig {
  const wanted = withGpsMode(sources.wanted);
  const refused = new Set(refusedSettings(sources).map(({ field }) => field));
  return Object.fromEntries(Object.entries(wanted).filter(([key]) => !refused.has(key)));
}

/** The time zone in force; empty is UTC. */
export function timeZoneInForce({ config, wanted }: Pick<SettingsSources, 'config' | 'wanted'>): string {
  const { timeZone } = wanted;
  return timeZone !== undefined && isTimeZone(timeZone) ? timeZone : config.timeZone;
}

/** Coordinates without a mode are meant to be used. */
function withGpsMode(wanted: AgentConfig): AgentConfig {
  const { gpsMode, latitude, longitude } = wanted;
  const isGiven = gpsMode === undefined && latitude !== undefined && longitude !== undefined;
  return isGiven ? { ...wanted, gpsMode: 'manual' } : wanted;
}

/** Settings of the controller whose values have to be in the range that the machine's own file has for them. */
const RANGES: readonly (keyof AgentConfig & SettingName)[] = [
  'availableDiskThreshold',
  'changeFrequency',
  'cpuLimit',
  'diskLimit',
  'logFileCount',
  'logLevel',
  'logLimit',
  'memoryLimit',
  'pruningFrequency',
  'statusFrequency',
];

/** Serial ports: opening another device, such as a watchdog, may act on the machine. */
const SERIAL_PORT =
  /^\/dev\/(?:tty[A-Z][A-Za-z]{0,15}\d{1,3}|gps\d{0,3}|gnss\d{1,3}|serial\/by-(?:id|path)\/[\w.:@-]{1,200})$/;

type Refusal = (
  wanted: AgentConfig,
  sources: Pick<SettingsSources, 'config' | 'foreignContainers' | 'hasInterface'>,
) => string | undefined;

/** Why a setting of the controller is not in force; a setting that is absent here is taken within its range. */
const REFUSALS: Partial<Record<keyof AgentConfig, Refusal>> = {
  edgeGuardFrequency: ({ edgeGuardFrequency = 0 }, { config }) =>
    edgeGuardFrequency === config.edgeGuardFrequency ? undefined : 'only the machine itself chooses this',
  gpsMode: ({ gpsMode, gpsDevice }, { config }) => {
    if (gpsMode === 'auto') return config.gpsLookupUrl ? undefined : NO_LOOKUP;
    if (gpsMode !== 'dynamic') return undefined;
    return config.gpsDevice || (gpsDevice && SERIAL_PORT.test(gpsDevice)) ? undefined : NO_DEVICE;
  },
  gpsDevice: ({ gpsDevice = '' }, { config }) =>
    gpsDevice === '' || gpsDevice === config.gpsDevice || SERIAL_PORT.test(gpsDevice)
      ? undefined
      : `${JSON.stringify(gpsDevice)}; of a controller the machine takes only serial ports such as /dev/ttyUSB0`,
  gpsScanFrequency: ({ gpsScanFrequency }) => {
    const error = settingError('gpsScanFrequency', gpsScanFrequency);
    return error && `${gpsScanFrequency}; ${error}`;
  },
  latitude: ({ longitude }) => (longitude === undefined ? 'there is no longitude; a position has both' : undefined),
  longitude: ({ latitude }) => (latitude === undefined ? 'there is no latitude; a position has both' : undefined),
  logFileCount: (_wanted, { config }) => noLogFiles(config),
  logLimit: (_wanted, { config }) => noLogFiles(config),
  networkInterface: ({ networkInterface = 'dynamic' }, { hasInterface }) =>
    networkInterface === 'dynamic' || hasInterface(networkInterface)
      ? undefined
      : `${JSON.stringify(networkInterface)}; the machine has no such interface with an address`,
  timeZone: ({ timeZone = '' }) =>
    isTimeZone(timeZone) ? undefined : `${JSON.stringify(timeZone)}; must be an IANA time zone such as Europe/Berlin`,
};

/** Why a mode of the position cannot work. */
export const NO_LOOKUP = 'gpsMode auto needs gpsLookupUrl in the settings of the machine';
export const NO_DEVICE = 'gpsMode dynamic needs gpsDevice';

const noLogFiles = ({ logDirectory }: Config) =>
  logDirectory ? undefined : 'the machine has chosen no log directory, so there are no log files';

/** The settings of the controller that are not in force, each with the reason. */
export function refusedSettings(
  sources: Pick<SettingsSources, 'config' | 'wanted' | 'foreignContainers' | 'hasInterface'>,
): { field: string; reason: string }[] {
  const { config, foreignContainers } = sources;
  const wanted = withGpsMode(sources.wanted);
  const refused: { field: string; reason: string }[] = [];
  for (const field of MACHINE_SETTINGS)
    if (wanted[field] !== undefined && wanted[field] !== config[field as keyof Config])
      refused.push({ field, reason: 'only the machine itself chooses this' });
  if (isWatching(config, wanted) && !isRemoving(config, wanted))
    refused.push({ field: 'watchdogEnabled', reason: watchdogReport(foreignContainers) });
  for (const field of Object.keys(wanted) as (keyof AgentConfig)[]) {
    const reason = REFUSALS[field]?.(wanted, sources) ?? outOfRange(field, wanted[field]);
    if (reason) refused.push({ field, reason: reason.slice(0, REASON_LENGTH) });
  }
  return refused;
}

function outOfRange(field: keyof AgentConfig, value: unknown): string | undefined {
  const setting = RANGES.find((name) => name === field);
  const error = setting && settingError(setting, value);
  return error && `${JSON.stringify(value)}; ${error}`;
}

/** of a refused setting in a report */
const REASON_LENGTH = 256;

/** Whether it was asked for, here or by the controller. */
export function isWatching(config: Pick<Config, 'watchdogEnabled'>, wanted: { watchdogEnabled?: boolean }): boolean {
  return wanted.watchdogEnabled === true || config.watchdogEnabled;
}

/** Whether the watchdog removes what it finds: only the machine's own file can say so. */
export function isRemoving(
  config: Pick<Config, 'watchdog' | 'watchdogEnabled'>,
  wanted: { watchdogEnabled?: boolean },
): boolean {
  return config.watchdog === 'remove' && isWatching(config, wanted);
}

/**
 * The report of the watchdog, cut to the length that the wire allows. The owners of the containers are unknown, so none is
 * removed.
 */
function watchdogReport(foreignContainers: readonly string[]): string {
  const reason = 'the machine has not chosen that containers which are not of this agent are removed';
  if (foreignContainers.length === 0) return reason;
  const text = `${reason}; there ${foreignContainers.length === 1 ? 'is 1' : `are ${foreignContainers.length}`}: ${foreignContainers.join(', ')}`;
  return text.length <= REASON_LENGTH ? text : `${text.slice(0, REASON_LENGTH - 4)} ...`;
}
