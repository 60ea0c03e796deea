import { BOUNDS } from '../api/bounds.ts';
import type { Application, EdgeNode } from '../api/v3/index.ts';
import { entryUuid, nodeUuid, v3Name } from '../domain/index.ts';
import type { Change } from '../kube/mod.ts';

/** Application and name of entries that left a node, by uuid. */
export type EntryNames = ReadonlyMap<string, { application: string; name: string }>;

/**
 * Entries that were taken from a node before its status had named them. The names that a machine gives are not believed,
 * so that of a container that runs for a removed entry only this tells whose it is. Memory of one leader: what is lost
 * with it is shown by its uuid alone.
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
        // as many as one report can name
        for (const [oldest] of entries) if (entries.size > BOUNDS.report) entries.delete(oldest);
      }
    },
    of: (uuid) => nodes.get(uuid) ?? none,
    forget: (uuid) => void nodes.delete(uuid),
  };
}
