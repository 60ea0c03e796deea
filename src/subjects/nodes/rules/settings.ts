import { CONTAINER_NAME_PREFIX } from '../../../api/names.ts';
import type { EdgeNode, EdgeNodeSpec } from '../../../api/v3/index.ts';
import type { AgentConfig } from '../../../wire/agent.ts';
import { busModeOf, SYSTEM_MODES } from './modes.ts';

/** Settings that a machine takes from the spec; when one is absent, the machine decides. */
export const CONFIG_FIELDS = [
  'networkInterface',
  'diskLimit',
  'memoryLimit',
  'cpuLimit',
  'logLimit',
  'logFileCount',
  'statusFrequency',
  'changeFrequency',
  'watchdogEnabled',
  'edgeGuardFrequency',
  'gpsMode',
  'gpsDevice',
  'gpsScanFrequency',
  'latitude',
  'longitude',
  'logLevel',
  'pruningFrequency',
  'availableDiskThreshold',
  'timeZone',
] as const satisfies readonly (keyof AgentConfig & keyof EdgeNodeSpec)[];

/** Settings that are never taken from the controller (docs/spec/agent-channel.md#settings). */
export const MACHINE_OWNED = [
  'containerEngine',
  'containerEngineUrl',
  'diskDirectory',
  'logDirectory',
] as const satisfies readonly (keyof AgentConfig & keyof EdgeNodeSpec)[];

/** `engine_a` and `engine_b` are the neutral names of docker and podman. */
export function canonicalEngine<T extends string | undefined>(engine: T): T | 'docker' | 'podman' {
  if (engine === 'engine_a') return 'docker';
  if (engine === 'engine_b') return 'podman';
  return engine;
}

/** Name of the agent's folders on a machine. */
const AGENT = `${CONTAINER_NAME_PREFIX}agent`;

/**
 * Documented defaults, shown for settings that neither the spec nor the machine names (docs/spec/rest-v3.md#node-body).
 */
const DEFAULTS: Partial<Record<keyof EdgeNodeSpec, unknown>> = {
  location: '',
  description: '',
  latitude: 0,
  longitude: 0,
  gpsMode: 'auto',
  gpsDevice: '',
  gpsScanFrequency: 60,
  containerEngine: 'docker',
  containerEngineUrl: 'unix:///var/run/docker.sock',
  deploymentType: 'native',
  diskLimit: 50,
  diskDirectory: `/var/lib/${AGENT}`,
  memoryLimit: 4096,
  cpuLimit: 80,
  logLimit: 10,
  logDirectory: `/var/log/${AGENT}`,
  logFileCount: 10,
  logLevel: 'info',
  statusFrequency: 10,
  changeFrequency: 20,
  watchdogEnabled: true,
  edgeGuardFrequency: 0,
  pruningFrequency: 0,
  availableDiskThreshold: 20,
  timeZone: '',
  networkInterface: 'dynamic',
  tags: [],
  isSystem: false,
  routerMode: 'edge',
  messagingPort: 5671,
  upstreamRouters: [],
  // Where the bus is off.
  busMode: 'none',
  busServerPort: 4222,
  busLeafPort: 7422,
  busClusterPort: 6222,
  busMqttPort: 8883,
  busHttpPort: 8222,
  busClientTls: false,
  upstreamBusServers: [],
  jsStorageSize: '10g',
  jsMemoryStoreSize: '1g',
};

const isMode = (field: string): field is keyof typeof SYSTEM_MODES => Object.hasOwn(SYSTEM_MODES, field);

/** Defaults of settings that are shown in one mode only. */
const INTERIOR_PORTS = { interRouterPort: 55671, edgeRouterPort: 45671 };

const isInteriorPort = (field: string): field is keyof typeof INTERIOR_PORTS => Object.hasOwn(INTERIOR_PORTS, field);

const FIELDS = Object.keys(DEFAULTS) as (keyof EdgeNodeSpec)[];

/** Architecture id of a node: as its agent reports, else as in its spec; 0 when neither is known. */
export function archOf(node: EdgeNode): number {
  return node.status?.archId || node.spec.archId || 0;
}

/** Address under which other nodes reach a node: its host, else what its agent reports. */
export function hostOf(node: EdgeNode): string | undefined {
  const reported = node.status?.ipAddress;
  return node.spec.host || (reported && reported !== '0.0.0.0' ? reported : undefined);
}

/** A setting as reads show it: from the spec, else from the machine, else what acts without it. */
export function settingShown(node: EdgeNode, field: keyof EdgeNodeSpec, isBusOn: boolean): unknown {
  if (field === 'archId') return archOf(node);
  if (field === 'host') return hostOf(node) ?? '';
  if (node.spec.isSystem && isMode(field)) return SYSTEM_MODES[field];
  const effective = (node.status?.config ?? {}) as Partial<Record<keyof EdgeNodeSpec, unknown>>;
  if (field === 'containerEngine') {
    // Until the first report only the provisioning record has it.
    const engine = node.spec[field] ?? effective[field] ?? node.status?.containerEngine ?? DEFAULTS[field];
    return canonicalEngine(engine as string);
  }
  if (field === 'busMode') return busModeOf(node, isBusOn);
  const own = node.spec[field] ?? effective[field] ?? DEFAULTS[field];
  return own === undefined && isInteriorPort(field) && settingShown(node, 'routerMode', isBusOn) === 'interior'
    ? INTERIOR_PORTS[field]
    : own;
}

/** The modes that a spec asks for and a node of the system does not have. */
export const modesNotOfSystem = ({ isSystem, ...spec }: EdgeNodeSpec) =>
  (Object.keys(SYSTEM_MODES) as (keyof typeof SYSTEM_MODES)[])
    .filter((field) => isSystem && (spec[field] ?? SYSTEM_MODES[field]) !== SYSTEM_MODES[field])
    .map((field) => ({ field, asked: spec[field], has: SYSTEM_MODES[field] }));

/** All settings as reads show them. */
export function settingsShown(node: EdgeNode, isBusOn: boolean): Record<string, unknown> {
  const shown: Record<string, unknown> = {};
  for (const field of FIELDS) shown[field] = settingShown(node, field, isBusOn);
  if (shown.routerMode === 'interior')
    for (const field of Object.keys(INTERIOR_PORTS) as (keyof typeof INTERIOR_PORTS)[])
      shown[field] = settingShown(node, field, isBusOn);
  if (shown.routerMode === 'none') shown.networkRouter = node.spec.networkRouter ?? '';
  return shown;
}
