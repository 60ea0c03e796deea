import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { normalEntry } from '../../../rules/normal-entry.ts';
import { canonicalJson } from '../../../wire/digest.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { FREE_CONTAINER_FIELDS, PLATFORM_MEMBERS } from '../../workloads/rules/platform-entry.ts';

const OF_USERS: ReadonlySet<string> = new Set(FREE_CONTAINER_FIELDS);

const OF_APPLICATION: ReadonlySet<string> = new Set(PLATFORM_MEMBERS);

/** The microservices of an application that the platform makes, by name, as its annotation says. */
export function platformEntries({ metadata }: Pick<Application, 'metadata'>): readonly string[] {
  try {
    const names: unknown = JSON.parse(metadata.annotations?.[ANNOTATIONS.platform] ?? '[]');
    return Array.isArray(names) ? names.filter((name) => typeof name === 'string') : [];
  } catch {
    return [];
  }
}

/**
 * The system's application of a node with exactly these microservices of the platform, besides those that others made, such as the
 * debug shell. What users changed by force is put right; what they may change stays. The same object when nothing changes, and
 * undefined when the application is to end, or need not exist.
 */
export function withPlatform(
  present: Application | undefined,
  node: EdgeNode,
  wanted: readonly MicroserviceEntry[],
): Application | undefined {
  const owned = present ? platformEntries(present) : [];
  const { microservices = [] } = present?.spec ?? {};
  const names = wanted.map(({ name }) => name);
  const others = microservices.filter(({ name }) => !owned.includes(name) && !names.includes(name));
  if (names.length === 0 && owned.length === 0) return present;
  if (names.length === 0 && others.length === 0) return undefined;
  const entries = wanted.map((entry) => {
    const stored = microservices.find(({ name }) => name === entry.name);
    return asWanted(stored, { ...entry, agent: { uuid: nodeUuid(node) } });
  });
  const isSame =
    owned.length === names.length &&
    owned.every((name) => names.includes(name)) &&
    entries.every((entry) => microservices.includes(entry)) &&
    present?.spec.isActivated !== false &&
    PLATFORM_MEMBERS.every((member) => present?.spec[member] === undefined);
  if (isSame) return present;
  const { [ANNOTATIONS.platform]: _, ...annotations } = present?.metadata.annotations ?? {};
  const rest = Object.fromEntries(
    Object.entries(present?.spec ?? {}).filter(([member]) => !OF_APPLICATION.has(member)),
  );
  const mark = names.length > 0 ? { [ANNOTATIONS.platform]: JSON.stringify(names) } : {};
  return {
    ...(present ?? { apiVersion: API_VERSION, kind: 'Application' }),
    metadata: {
      ...(present?.metadata ?? { name: systemApplicationName(node), namespace: node.metadata.namespace }),
      annotations: { ...annotations, ...mark },
    },
    spec: { ...rest, isSystem: true, isActivated: true, microservices: [...others, ...entries] },
  } as Application;
}

/** The stored entry when it means the same, but for what users may change; else the wanted one, with its uuid and with that. */
function asWanted(stored: MicroserviceEntry | undefined, wanted: MicroserviceEntry): MicroserviceEntry {
  if (!stored) return wanted;
  const ofUsers = Object.fromEntries(Object.entries(stored.container ?? {}).filter(([field]) => OF_USERS.has(field)));
  const made = {
    ...wanted,
    ...(stored.uuid !== undefined && { uuid: stored.uuid }),
    container: { ...wanted.container, ...ofUsers },
  };
  return formOf(stored) === formOf(made) ? stored : made;
}

/** One text for entries that mean the same. */
const formOf = (entry: MicroserviceEntry): string => canonicalJson(normalEntry(entry));
