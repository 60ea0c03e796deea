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
  {
    views,
    sourceOf,
  }: { views(uuid: string): readonly MicroserviceView[]; sourceOf(uuid: string): VolumeConsumer['source'] },
): WantedVolumes | undefined {
  if (!entries) return undefined;
  const microservices = new Map<string, VolumeConsumer>();
  const shared = new Map<string, VolumeConsumer[]>();
  let isEachShared = false;
  for (const entry of entries) {
    const { uuid } = entry;
    const known = entry.kind === 'run' ? [entry.view, ...views(uuid)] : views(uuid);
    const { application = '', name = '' } = entry.kind === 'hold' && entry.name ? entry : (known[0] ?? {});
    const consumer = { uuid, application, name, source: sourceOf(uuid) };
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

/** The path of a volume below the directory of volumes: `data/<uuid>/<name>` or `shared/<name>`. */
export type VolumePath = string;

/** The beginnings of the paths of wanted volumes: the folder of a microservice, or the path of a shared volume. */
export function wantedFolders({ microservices, shared }: WantedVolumes): string[] {
  return [
    ...[...microservices.keys()].map((uuid) => `data/${uuid}`),
    ...[...shared.keys()].map((name) => `shared/${name}`),
  ];
}

/** Whether a volume, or all in a folder, is wanted; everything is while that is not known. */
export function isWanted(path: VolumePath, wanted: WantedVolumes | undefined): boolean {
  if (!wanted) return true;
  const [folder, name = ''] = path.split('/');
  if (folder === 'data') return wanted.microservices.has(name);
  return wanted.isEachShared || wanted.shared.has(name);
}
