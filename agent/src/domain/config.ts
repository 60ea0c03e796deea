import { dirname, join, resolve } from 'node:path';
import { isMap, parseDocument, stringify } from 'yaml';
import { z } from 'zod';
import { PORTS } from '../../../src/api/names.ts';
import { ENGINE_KINDS } from '../engine-port/facts.ts';
import { issueText, wrongValue, yamlProblem } from './issue-text.ts';
import { cidrOf } from './networks.ts';

/** The configuration file of an installed agent. */
export const DEFAULT_CONFIG_FILE = '/etc/skerry-agent/config.yaml';
const DEFAULT_DISK_DIRECTORY = '/var/lib/skerry-agent';
const DEFAULT_RUN_DIRECTORY = '/run/skerry-agent';

const switchable = z.union([
  z.boolean(),
  z.enum(['on', 'off', 'true', 'false']).transform((word) => word === 'on' || word === 'true'),
]);
const number = z.coerce.number();
const frequency = number.pipe(z.number().min(1).max(86_400));
const patience = number.pipe(z.number().int().min(5).max(300));
/** No text of a setting is longer. */
const LONGEST = 4096;

export const LOG_LEVELS = ['DEBUG', 'INFO', 'WARN', 'ERROR'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

/**
 * The agent's settings, as its file has them. All are optional. Paths that are not absolute are relative to the file.
 * Units: diskLimit and logLimit GiB, memoryLimit MiB, cpuLimit percent of one core, frequencies seconds, pruningFrequency
 * hours, availableDiskThreshold percent, pullRateLimit MiB a second.
 */
const settingsSchema = z.object({
  /** database, identity, volumes */
  diskDirectory: z.string().default(DEFAULT_DISK_DIRECTORY),
  /** socket and admin token; default: `run` in diskDirectory where that is set, else /run/skerry-agent */
  runDirectory: z.string().optional(),
  /** the policy file; default: the directory of this file */
  configDirectory: z.string().default('.'),
  /** where log files go besides stderr; none unless set */
  logDirectory: z.string().optional(),
  /** loopback port of the health routes and the metrics; 0 is off */
  localApiPort: number.pipe(z.number().int().min(0).max(65535)).default(PORTS.agent),

  /** the controller for a provisioning key without a URL; a command changes it, also for a provisioned node */
  controllerUrl: z.string().optional(),
  /** PEM file of a further authority for the controller's certificate */
  controllerCert: z.string().optional(),
  /** PEM file with the public keys, one or several, by which releases of the agent are signed; none: no self-update */
  releaseKeyFile: z.string().optional(),
  /** seconds that a controller has to answer, and to answer whether it is there */
  controllerRequestTimeoutSeconds: patience.default(30),
  controllerPingTimeoutSeconds: patience.default(20),
  /** of the agent while it is no node; a node has that of its controller */
  namespace: z
    .string()
    .regex(/^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/, 'must be small letters, digits and hyphens, at most 63')
    .default('default'),
  /** off: the controller's certificate is not verified */
  secureMode: switchable.default(true),
  devMode: switchable.default(false),

  containerEngine: z
    .enum([...ENGINE_KINDS, 'engine_a', 'engine_b'])
    .transform((name) => ({ engine_a: 'docker', engine_b: 'podman' })[name as string] ?? name)
    .pipe(z.enum(ENGINE_KINDS))
    .optional(),
  containerEngineUrl: z
    .string()
    .regex(/^(unix|tcp):\/\/./, 'begins with unix:// or tcp://')
    .optional(),
  networkInterface: z.string().default('dynamic'),
  /** of the network of containers, when it is made; absent: the engine chooses */
  bridgeCidr: z
    .string()
    .refine(
      (text) => cidrOf(text) !== undefined,
      'must be a private network of IPv4 such as 172.30.0.0/16, of /8 to /28',
    )
    .optional(),
  arch: z.enum(['auto', 'amd64', 'arm64', 'riscv64', 'arm']).default('auto'),

  diskLimit: number.pipe(z.number().min(0.5).max(102_400)).default(10),
  memoryLimit: number.pipe(z.number().min(128).max(1_048_576)).default(4096),
  cpuLimit: number.pipe(z.number().min(5).max(400)).default(80),
  /** of pulls of models and knowledge together; 0: any */
  pullRateLimit: number.pipe(z.number().min(0).max(102_400)).default(0),
  logLimit: number.pipe(z.number().min(0.5).max(102_400)).default(10),
  logFileCount: number.pipe(z.number().int().min(1).max(100)).default(10),
  logLevel: z
    .string()
    .transform((level) => level.toUpperCase())
    .pipe(z.enum(LOG_LEVELS))
    .default('INFO'),
  statusFrequency: frequency.default(10),
  changeFrequency: frequency.default(20),
  /** foreign containers are reported */
  watchdogEnabled: switchable.default(false),
  /** what the watchdog does with foreign containers, whoever has switched it on */
  watchdog: z.enum(['report', 'remove']).default('report'),
  /** seconds between checks that this is the machine of the identity; 0: none */
  edgeGuardFrequency: number.pipe(z.number().min(0).max(86_400)).default(0),
  gpsMode: z.enum(['auto', 'dynamic', 'manual', 'off']).default('off'),
  gpsDevice: z.string().default(''),
  /** seconds between readings */
  gpsScanFrequency: number.pipe(z.number().min(1).max(86_400)).default(60),
  /** where gpsMode auto asks for the position of this machine's address; empty is off */
  gpsLookupUrl: z.string().default(''),
  gpsCoordinates: z.string().default('0,0'),
  pruningFrequency: number.pipe(z.number().min(0)).default(0),
  availableDiskThreshold: number.pipe(z.number().min(0).max(100)).default(20),
  upgradeScanFrequency: number.pipe(z.number().min(1)).default(24),
  timeZone: z.string().default(''),
  /** what becomes of containers when the agent is stopped */
  shutdownPolicy: z.enum(['leave-running', 'drain-all']).default('leave-running'),
  /** seconds that all of them have together */
  shutdownGracePeriodSeconds: number.pipe(z.number().int().min(5).max(600)).default(90),
});
type Settings = z.infer<typeof settingsSchema>;
const placesSchema = settingsSchema.pick({ diskDirectory: true, runDirectory: true });
export type SettingName = keyof Settings;
/** The names of all settings, as the file has them. */
export const SETTING_NAMES = Object.keys(settingsSchema.shape) as readonly SettingName[];

/** Settings as they are used: paths absolute. */
export interface Config extends Settings {
  file: string;
  runDirectory: string;
  /** the local API's socket, and the token that opens it */
  socket: string;
  tokenFile: string;
  policyFile: string;
  /** names in the file that are no settings */
  unknownNames: readonly string[];
}

/**
 * Names that the local API uses for settings, and short ones, where they differ from the file's
 * (docs/spec/agent-local-api.md#settings).
 */
const API_NAMES: Readonly<Record<string, SettingName>> = {
  diskLimitGiB: 'diskLimit',
  memoryLimitMiB: 'memoryLimit',
  cpuLimitPercent: 'cpuLimit',
  pullRateLimitMiB: 'pullRateLimit',
  logLimitGiB: 'logLimit',
  statusFrequencySeconds: 'statusFrequency',
  changeFrequencySeconds: 'changeFrequency',
  timezone: 'timeZone',
  a: 'controllerUrl',
  ac: 'controllerCert',
  sec: 'secureMode',
  dev: 'devMode',
  ft: 'arch',
  n: 'networkInterface',
  ce: 'containerEngine',
  cu: 'containerEngineUrl',
  d: 'diskLimit',
  dl: 'diskDirectory',
  m: 'memoryLimit',
  p: 'cpuLimit',
  pr: 'pullRateLimit',
  l: 'logLimit',
  ld: 'logDirectory',
  lc: 'logFileCount',
  ll: 'logLevel',
  sf: 'statusFrequency',
  cf: 'changeFrequency',
  wd: 'watchdogEnabled',
  egf: 'edgeGuardFrequency',
  gps: 'gpsMode',
  gpsc: 'gpsCoordinates',
  gpsd: 'gpsDevice',
  gpsf: 'gpsScanFrequency',
  pf: 'pruningFrequency',
  dt: 'availableDiskThreshold',
  uf: 'upgradeScanFrequency',
  tz: 'timeZone',
};

/** The setting that a name of the file, of the local API, or a short name means. */
export function settingName(name: string): SettingName | undefined {
  const found = API_NAMES[name] ?? name;
  return found in settingsSchema.shape ? (found as SettingName) : undefined;
}

/** All names of a setting. */
export const settingSpellings = (name: SettingName): string[] => [
  name,
  ...Object.keys(API_NAMES).filter((each) => API_NAMES[each] === name),
];

/** A file of settings or a policy that cannot be taken; the message names the file, and each wrong setting with its value. */
export class ConfigError extends Error {
  override name = 'ConfigError';
}

/**
 * Parses a configuration file, in the plain form or with profiles: `currentProfile` and `profiles.<name>`. An absent file
 * gives the defaults.
 */
export function parseConfig(text: string | undefined, file: string): Config {
  const { settings: given, unknownNames } = settingsOf(text ?? '', file);
  const settings = settingsSchema.safeParse(given);
  if (!settings.success) {
    const wrong = settings.error.issues.map((issue) => wrongValue(issue, given));
    throw new ConfigError(`${file}: ${wrong.join('; ')}`);
  }
  const absolute = absoluteFrom(file);
  const { data } = settings;
  const configDirectory = absolute(data.configDirectory);
  return {
    ...data,
    unknownNames,
    file: resolve(file),
    ...runPlaces(data, file),
    configDirectory,
    logDirectory: data.logDirectory && absolute(data.logDirectory),
    controllerCert: data.controllerCert && absolute(data.controllerCert),
    releaseKeyFile: data.releaseKeyFile && absolute(data.releaseKeyFile),
    policyFile: join(configDirectory, 'policy.yaml'),
  };
}

const absoluteFrom = (file: string) => (path: string) => resolve(dirname(resolve(file)), path);

function runPlaces({ diskDirectory, runDirectory }: z.infer<typeof placesSchema>, file: string) {
  const absolute = absoluteFrom(file);
  const disk = absolute(diskDirectory);
  const ownRun = diskDirectory === DEFAULT_DISK_DIRECTORY ? DEFAULT_RUN_DIRECTORY : join(disk, 'run');
  const run = runDirectory ? absolute(runDirectory) : ownRun;
  const socket = join(run, 'api.sock');
  return { diskDirectory: disk, runDirectory: run, socket, tokenFile: tokenBeside(socket) };
}

/** The admin token of an agent, by its socket. */
export const tokenBeside = (socket: string): string => join(dirname(socket), 'token');

/**
 * Where the agent of a file of settings is reached, whatever its other settings are: an agent that runs has read an earlier form of
 * the file. Throws ConfigError for a file that cannot be read at all.
 */
export function placesOf(text: string | undefined, file: string): Pick<Config, 'socket' | 'tokenFile'> {
  const places = placesSchema.safeParse(settingsOf(text ?? '', file).settings);
  if (!places.success) throw new ConfigError(`${file}: diskDirectory and runDirectory must be text`);
  return runPlaces(places.data, file);
}

function settingsOf(
  text: string,
  file: string,
): { settings: Record<string, unknown>; unknownNames: readonly string[] } {
  const document = parseDocument(text);
  if (document.errors.length > 0) throw new ConfigError(`${file} is not YAML: ${yamlProblem(document)}`);
  const content: unknown = document.toJS() ?? {};
  if (typeof content !== 'object' || Array.isArray(content)) throw new ConfigError(`${file} is not a map of settings`);
  const { currentProfile = 'default', profiles, ...plain } = content as Record<string, unknown>;
  const chosen = (profiles as Record<string, Record<string, unknown>> | undefined)?.[String(currentProfile)] ?? {};
  const settings: Record<string, unknown> = {};
  const unknownNames: string[] = [];
  // One after the other: a profile may spell a setting in another way.
  for (const [key, value] of [...Object.entries(plain), ...Object.entries(chosen)]) {
    const name = settingName(key);
    // Settings of an older or newer agent are ignored, and said to be.
    if (!name) unknownNames.push(key);
    else if (value === null || value === '') delete settings[name];
    else settings[name] = value;
  }
  return { settings, unknownNames };
}

/** Checks the new value of a setting; returns the error, or undefined. */
export function settingError(name: SettingName, value: unknown): string | undefined {
  if (name === 'controllerUrl' && !/^https?:$/.test(URL.parse(String(value))?.protocol ?? ''))
    return 'is an address that begins with http:// or https://';
  if (typeof value === 'string' && value.length > LONGEST) return `must be at most ${LONGEST} characters long`;
  const result = settingsSchema.shape[name].safeParse(value);
  return result.success ? undefined : result.error.issues.map(issueText).join('; ');
}

/**
 * The text of a file with some settings changed; comments and everything else stay. Other spellings of these settings go, or they
 * would have the last word.
 */
export function changeConfig(text: string | undefined, changes: Record<string, unknown>): string {
  const document = parseDocument(text ?? '');
  if (!isMap(document.contents)) return stringify(changes);
  const profile = document.has('profiles') ? ['profiles', String(document.get('currentProfile') ?? 'default')] : [];
  const target: unknown = profile.length > 0 ? document.getIn(profile) : document.contents;
  const spellings = isMap(target) ? target.items.map(({ key }) => String(key)) : [];
  for (const [name, value] of Object.entries(changes)) {
    for (const spelling of spellings)
      if (spelling !== name && settingName(spelling) === name) document.deleteIn([...profile, spelling]);
    document.setIn([...profile, name], value);
  }
  return document.toString();
}

/** Short names that commands may use for the profiles of v3. */
const PROFILE_NAMES: Readonly<Record<string, string>> = { dev: 'development', prod: 'production', def: 'default' };
export const PROFILES = ['dev', 'prod', 'def', 'development', 'production', 'default'] as const;

/**
 * The text of a file with another profile in use, by a full or a short name, and both full names. Throws ConfigError for a file
 * without that profile.
 */
export function switchProfile(
  text: string | undefined,
  file: string,
  asked: (typeof PROFILES)[number],
): { text: string; oldProfile: string; profile: string } {
  const document = parseDocument(text ?? '');
  if (document.errors.length > 0) throw new ConfigError(`${file} is not YAML: ${yamlProblem(document)}`);
  const profile = PROFILE_NAMES[asked] ?? asked;
  const profiles: unknown = isMap(document.contents) ? document.get('profiles') : undefined;
  if (!isMap(profiles)) throw new ConfigError(`${file} has no profiles; they are maps of settings below "profiles"`);
  const names = profiles.items.map(({ key }) => String(key));
  if (!names.includes(profile))
    throw new ConfigError(`${file} has no profile "${profile}"; it has: ${names.slice(0, 20).join(', ') || 'none'}`);
  const oldProfile = String(document.get('currentProfile') ?? 'default');
  document.set('currentProfile', profile);
  return { text: document.toString(), oldProfile, profile };
}
