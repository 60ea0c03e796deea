import { CONTAINER_FIELD_NAMES, type ContainerField } from '../../../api/container/index.ts';
import type { EdgeNodeStatus, MicroserviceEntry } from '../../../api/v3/index.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';

/** The first version of third-party agents that has what the specification of the agent channel has. */
export const AGENT_BASELINE = { major: 3, minor: 8 } as const;

/** Whether the version of a third-party agent is before {@link AGENT_BASELINE}. One that cannot be read counts as an old one. */
export function isBeforeBaseline(version: string): boolean {
  const [, major = 0, minor = 0] = (/^v?(\d{1,4})\.(\d{1,4})/.exec(version) ?? []).map(Number);
  return major < AGENT_BASELINE.major || (major === AGENT_BASELINE.major && minor < AGENT_BASELINE.minor);
}

/** What third-party agents of earlier versions read of a container. They drop every other field in silence. */
const READ_BEFORE: ReadonlySet<ContainerField> = new Set([
  'commands',
  'env',
  'ports',
  'volumes',
  'extraHosts',
  'cdiDevices',
  'hostNetworkMode',
  'isPrivileged',
  'capAdd',
  'capDrop',
  'pidMode',
  'ipcMode',
  'runAsUser',
  'platform',
  'runtime',
  'cpuSetCpus',
  'memoryLimit',
  'healthCheck',
  'logSize',
  'annotations',
]);

const UNREAD_FIELDS = CONTAINER_FIELD_NAMES.filter((field) => !READ_BEFORE.has(field));

/** The fields of an entry that the agent of its node does not read, each with the reason; none while its version is not known. */
export function unreadFields(
  { agent, version }: Pick<EdgeNodeStatus, 'agent' | 'version'>,
  entry: MicroserviceEntry,
): readonly string[] {
  if (agent !== undefined || version === undefined || !isBeforeBaseline(version)) return [];
  const { container, models, knowledge } = normalEntry(entry);
  return [
    ...UNREAD_FIELDS.filter((field) => container[field] !== undefined),
    ...(models ? ['models'] : []),
    ...(knowledge ? ['knowledge'] : []),
  ].map((field) => `${field} (not read by the agent, whose version is ${version})`);
}
