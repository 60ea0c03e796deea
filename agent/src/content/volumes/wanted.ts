import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import type { Entry } from '../../domain/entry.ts';
import type { VolumeConsumer } from '../../domain/volume.ts';

/** The volumes that desired microservices have. */
export interface WantedVolumes {
  /** microservices by uuid: whatever private volume of theirs there is is wanted */
  microservices: ReadonlyMap<string, VolumeConsumer>;
  /** who has a shared volume, by its name */
  shared: ReadonlyMap<string, readonly VolumeConsumer[]>;
  /** of some microservice nothing tells which shared volumes it has: all are wanted */
  isEachShared: boolean;
}

/**
 * The volumes that entries have; undefined while the entries are not known: then every volume is wanted. `views` has a
 * microservice as it was sent, and as it ran last.
 */
export function wantedVolumes(
  entries: readonly Entry[] | undefined,
  views: (uuid: string) => readonly MicroserviceView[],
): WantedVolumes | undefined {
  if (!entries) return undefined;
  const microservices = new Map<string, VolumeConsumer>();
  const shared = new Map<string, VolumeConsumer[]>();
  let isEachShared = false;
  for (const entry of entries) {
    const { uuid } = entry;
    const known = entry.kind === 'run' ? [entry.view, ...views(uuid)] : views(uuid);
    const { application = '', name = '' } = entry.kind === 'hold' && entry.name ? entry : (known[0] ?? {});
    const consumer = { uuid, application, name };
    microservices.set(uuid, consumer);
    if (known.length === 0) isEachShared = true;
    for (const volume of new Set(known.flatMap(sharedNames)))
      shared.set(volume, [...(shared.get(volume) ?? []), consumer]);
  }
  return { microservices, shared, isEachShared };
}

function sharedNames({ volumeMappings }: MicroserviceView): string[] {
  return volumeMappings.flatMap(({ type, scope, hostDestination }) =>
    type === 'volume' && scope === 'shared' ? [hostDestination] : [],
  );
}

/**
 * What has a volume for as long as it is wanted: the microservice of private volumes, or the name of a shared one. It is the
 * beginning of their paths, `data/<uuid>` or `shared/<name>`.
 */
export type VolumeOwner = string;

/** The owners that are wanted by name. */
export function wantedOwners({ microservices, shared }: WantedVolumes): VolumeOwner[] {
  return [...[...microservices.keys()].map(ownerOfPrivate), ...[...shared.keys()].map(ownerOfShared)];
}

export const ownerOfPrivate = (uuid: string): VolumeOwner => `data/${uuid}`;
const ownerOfShared = (name: string): VolumeOwner => `shared/${name}`;

export function volumeOwner({ uuid, name }: { uuid: string | null; name: string }): VolumeOwner {
  return uuid === null ? ownerOfShared(name) : ownerOfPrivate(uuid);
}

/** Whether the volumes of an owner are wanted; all are while that is not known. */
export function isWanted(owner: VolumeOwner, wanted: WantedVolumes | undefined): boolean {
  if (!wanted) return true;
  const [folder, name = ''] = owner.split('/');
  if (folder === 'data') return wanted.microservices.has(name);
  return wanted.isEachShared || wanted.shared.has(name);
}
