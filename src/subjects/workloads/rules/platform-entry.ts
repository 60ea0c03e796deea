import type { ContainerField } from '../../../api/container/index.ts';
import { ANNOTATIONS } from '../../../api/names.ts';
import type { Application, MicroserviceEntry } from '../../../api/v3/index.ts';
import { DomainError } from '../../../rules/errors.ts';
import { v3Name } from '../../../rules/names.ts';
import { type NormalEntry, normalEntry } from '../../../rules/normal-entry.ts';
import { canonicalJson } from '../../../wire/digest.ts';

/**
 * Microservices of the system that follow from the settings of their node, such as its router. An annotation of their application
 * names them, which only the controller writes. Users change some of their fields (docs/spec/workloads.md#microservices-of-the-platform);
 * the admission policy `skerry-platform` says the same over kubectl.
 */

/** Fields of the container that users change: what it may take of its machine, the size of its log, its labels. */
export const FREE_CONTAINER_FIELDS = [
  'cpus',
  'cpuSetCpus',
  'memoryLimit',
  'memoryReservation',
  'memorySwap',
  'logSize',
  'annotations',
] as const satisfies readonly ContainerField[];

/** Members of the application that change what its microservices are, besides its entries and `isActivated`. */
export const PLATFORM_MEMBERS = ['busConfig', 'template'] as const satisfies readonly (keyof Application['spec'])[];

/** Which settings of a node decide about a microservice of its platform. */
const SETTINGS: Readonly<Record<string, { mode: string; ports: string } | undefined>> = {
  router: { mode: 'routerMode', ports: 'messagingPort, interRouterPort or edgeRouterPort' },
  bus: { mode: 'busMode', ports: 'busServerPort, busLeafPort, busClusterPort, busMqttPort or busHttpPort' },
};

/** The entries of the platform. A name is found as the admission policy finds it, which cannot read JSON. */
function entriesOfPlatform({ metadata, spec }: Application): readonly MicroserviceEntry[] {
  const names = spec.isSystem === true ? metadata.annotations?.[ANNOTATIONS.platform] : undefined;
  if (names === undefined) return [];
  return (spec.microservices ?? []).filter(({ name }) => names.includes(JSON.stringify(name)));
}

/**
 * Why a user cannot write the application: it changes, renames or removes microservices of the platform. `spell` gives a path of
 * an entry as the request has it.
 */
export function platformRefusal(
  before: Application,
  after: Application,
  spell: (path: string) => string = (path) => path,
): DomainError | undefined {
  const entries = entriesOfPlatform(before);
  const [first] = entries;
  if (!first) return undefined;
  const stopped = after.spec.isActivated === false && before.spec.isActivated !== false;
  const members = PLATFORM_MEMBERS.filter((name) => differs(before.spec[name], after.spec[name]));
  const [member] = stopped ? ['isActivated'] : members;
  if (member)
    return new DomainError(
      400,
      'SYSTEM_MICROSERVICE_UPDATE',
      `${member} of the application "${v3Name(before)}" acts on the system's microservice "${first.name}", which belongs to the platform of its node: ${howToEnd(first)}`,
      { field: member },
    );
  const now = new Map(after.spec.microservices?.map((entry) => [entry.name, entry]));
  for (const entry of entries) {
    const changed = now.get(entry.name);
    if (!changed) return removal(entry);
    const paths = changedPaths(normalEntry(entry), normalEntry(changed));
    if (paths[0]) return update(entry, paths as [string, ...string[]], spell);
  }
  return undefined;
}

/** Why a user cannot delete the application: the platform of a node that exists has microservices in it. */
export function platformDeletion(
  application: Application,
  nodeExists: (ref: NonNullable<MicroserviceEntry['agent']>) => boolean,
): DomainError | undefined {
  const kept = entriesOfPlatform(application).find(({ agent }) => agent && nodeExists(agent));
  return (
    kept &&
    new DomainError(
      400,
      'SYSTEM_APPLICATION_DELETE',
      `${v3Name(application)} has the system's microservice "${kept.name}", which belongs to the platform of its node: ${howToEnd(kept)}`,
    )
  );
}

const removal = (entry: MicroserviceEntry) =>
  new DomainError(
    400,
    'SYSTEM_MICROSERVICE_DELETE',
    `the system's microservice "${entry.name}" belongs to the platform of its node and can be neither removed nor renamed: ${howToEnd(entry)}`,
  );

function update(entry: MicroserviceEntry, paths: readonly [string, ...string[]], spell: (path: string) => string) {
  const named = paths.map(spell);
  const belong = named.length === 1 ? 'belongs' : 'belong';
  return new DomainError(
    400,
    'SYSTEM_MICROSERVICE_UPDATE',
    `${named.join(', ')} of the system's microservice "${entry.name}" ${belong} to the platform of its node: ${howToChange(entry, paths[0], spell)}`,
    { field: named[0] },
  );
}

const howToEnd = ({ name }: MicroserviceEntry): string => {
  const mode = SETTINGS[name]?.mode;
  return mode ? `set ${mode} of the node to none, or delete the node` : 'change the settings of the node';
};

function howToChange(entry: MicroserviceEntry, path: string, spell: (path: string) => string): string {
  const settings = SETTINGS[entry.name];
  if (path === 'isActivated') return howToEnd(entry);
  if (path.startsWith('images'))
    return `the controller's ${entry.name.toUpperCase()}_IMAGE_<archId> names another image`;
  if (path === 'container.ports' && settings) return `change ${settings.ports} of the node`;
  const free = FREE_CONTAINER_FIELDS.map((field) => spell(`container.${field}`)).join(', ');
  return `it follows from the settings of the node; you may change ${free}`;
}

/** Paths of an entry that two entries have different values at, without those that users change. */
function changedPaths(before: NormalEntry, after: NormalEntry): readonly string[] {
  const { container: oldContainer, ...old } = before;
  const { container: newContainer, ...now } = after;
  const free: ReadonlySet<string> = new Set(FREE_CONTAINER_FIELDS);
  return [
    ...changedMembers(old, now).map((member) => PLACES[member]?.(after) ?? member),
    ...changedMembers(oldContainer, newContainer)
      .filter((field) => !free.has(field))
      .map((field) => `container.${field}`),
  ];
}

/** Where a member of the normal form is in an entry, when it is not there by its own name. */
const PLACES: Readonly<Record<string, (entry: NormalEntry) => string>> = {
  agent: ({ agent }) => (agent?.name === undefined ? 'agent.uuid' : 'agent.name'),
  registry: () => 'images.registry',
  catalogId: () => 'images.catalogId',
};

function changedMembers(before: object, after: object): readonly string[] {
  const old = new Map<string, unknown>(Object.entries(before));
  const now = new Map<string, unknown>(Object.entries(after));
  return [...new Set([...old.keys(), ...now.keys()])].filter((key) => differs(old.get(key), now.get(key)));
}

const differs = (one: unknown, other: unknown) => canonicalJson(one ?? null) !== canonicalJson(other ?? null);
