import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Service } from '../../../api/v3/service.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { type Change, keyOf, type Store } from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { recordedNode } from '../../nodes/rules/placement/moves.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import { namesOfNode } from '../rules/backend.ts';

/** Which services a change of something else concerns: what a change costs grows with them alone. */
export interface AffectedServices {
  /** those that lead to a microservice whose identity or place differs now */
  byApplication(change: Change<Application>): string[];
  /** those that lead to the node or to a microservice on it, or leave the network there */
  byNode(change: Change<EdgeNode>): string[];
}

/** Keys of services, found by the indexes of their store. */
export function affectedServices(
  services: Store<Service>,
  lookups: ControllerDependencies['lookups'],
): AffectedServices {
  const keysOf = (resources: Iterable<string>): string[] =>
    [...resources]
      .flatMap((one) => [...services.byIndex('resource', one), ...services.byIndex('backend', one)])
      .map(keyOf);

  return {
    byApplication: (change) => keysOf(changedEntries(change)),
    byNode(change) {
      const all = [change.object, change.previous ?? change.object];
      const bridged = all.flatMap((node) => [...services.byIndex('bridge', nodeUuid(node))].map(keyOf));
      return [...keysOf(all.flatMap(namesOfNode)), ...bridged, ...keysOf(placed(change.object))];
    },
  };

  /** Uuids and names of the microservices that a node has. */
  function placed(node: EdgeNode): string[] {
    return lookups
      .applicationsOn(node)
      .flatMap((application) =>
        (application.spec.microservices ?? []).flatMap((entry) => namesOfEntry(application, entry)),
      );
  }
}

type Entry = NonNullable<Application['spec']['microservices']>[number];

const namesOfEntry = (application: Application, entry: Entry): string[] => [
  entryUuid(application, entry),
  `${v3Name(application)}/${entry.name}`,
];

/** Uuids and names of the microservices whose identity or node an edit of their application changed. */
function changedEntries({ object, previous, type }: Change<Application>): Set<string> {
  const now = type === 'delete' ? new Map<string, readonly string[]>() : placesOf(object);
  const before =
    type === 'delete' ? placesOf(object) : previous ? placesOf(previous) : new Map<string, readonly string[]>();
  const differ = [...new Set([...now.keys(), ...before.keys()])].filter((one) => now.has(one) !== before.has(one));
  return new Set(differ.flatMap((one) => now.get(one) ?? before.get(one) ?? []));
}

/** The names of entries, by all that decides where they are. */
function placesOf(application: Application): Map<string, readonly string[]> {
  return new Map(
    (application.spec.microservices ?? []).map((entry) => {
      const names = namesOfEntry(application, entry);
      const place = [names, entry.agent, recordedNode(application, entry), application.metadata.deletionTimestamp];
      return [JSON.stringify(place), names];
    }),
  );
}

/** Whether another node may be the default router outside of a cluster, or have another address. */
export function isOtherSystemNode({ object, previous, type }: Change<EdgeNode>): boolean {
  const of = (node: EdgeNode | undefined) => (node?.spec.isSystem ? (hostOf(node) ?? '') : undefined);
  return type === 'delete' ? of(object) !== undefined : of(object) !== of(previous);
}

/** Whether what services ask of a node is another thing after a change. */
export function isOtherNode(change: Change<EdgeNode>): boolean {
  const { object, previous, type } = change;
  if (type === 'delete' || !previous) return true;
  const of = ({ spec, metadata }: EdgeNode) => [
    spec.routerMode,
    spec.upstreamRouters,
    spec.host,
    spec.isSystem,
    metadata.deletionTimestamp,
    metadata.uid,
  ];
  const isSame =
    JSON.stringify([...of(object), ...namesOfNode(object)]) ===
    JSON.stringify([...of(previous), ...namesOfNode(previous)]);
  return !isSame && changesMoreThanStatus(change as never);
}
