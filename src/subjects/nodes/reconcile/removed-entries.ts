import { BOUNDS } from '../../../api/bounds.ts';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Change } from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';

/** Application and name of removed entries, by uuid. */
type EntryNames = ReadonlyMap<string, { application: string; name: string }>;

/**
 * Entries that were removed from a node before its status had named them. Names that a machine reports are not trusted, so
 * only this gives the name of a container that still runs for a removed entry. It is in the memory of the leader; after a
 * change of the leader such a container is shown by its uuid.
 */
export interface RemovedEntries {
  /** An Application was changed or deleted. */
  note(change: Change<Application>): void;
  of(nodeUuid: string): EntryNames;
  forget(nodeUuid: string): void;
}

/** `nodeOf` finds the node that an entry names. */
export function createRemovedEntries(
  nodeOf: (entry: NonNullable<Application['spec']['microservices']>[number]) => EdgeNode | undefined,
): RemovedEntries {
  const nodes = new Map<string, Map<string, { application: string; name: string }>>();
  const none: EntryNames = new Map();

  function placesOf(application: Application): Map<string, { node: string; name: string }> {
    const places = new Map<string, { node: string; name: string }>();
    for (const entry of application.spec.microservices ?? []) {
      const node = nodeOf(entry);
      if (node) places.set(entryUuid(application, entry), { node: nodeUuid(node), name: entry.name });
    }
    return places;
  }

  return {
    note({ type, object, previous = object }) {
      if (type !== 'delete' && previous.metadata.generation === object.metadata.generation) return;
      const now = type === 'delete' ? new Map() : placesOf(object);
      for (const [uuid, { node, name }] of placesOf(previous)) {
        if (now.get(uuid)?.node === node) continue;
        const entries = nodes.get(node) ?? new Map();
        nodes.set(node, entries);
        entries.delete(uuid);
        entries.set(uuid, { application: v3Name(previous), name });
        // at most as many as one report can name
        for (const [oldest] of entries) if (entries.size > BOUNDS.report) entries.delete(oldest);
      }
    },
    of: (uuid) => nodes.get(uuid) ?? none,
    forget: (uuid) => void nodes.delete(uuid),
  };
}
