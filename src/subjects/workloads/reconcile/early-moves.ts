import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import type { Change } from '../../../kube/mod.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import type { NodeId } from '../../nodes/rules/placement/moves.ts';

/**
 * Nodes that entries left before a status had a line about them: an edit may follow the creation of an Application at once.
 * In the memory of the leader; whoever leads next knows of such a node only what it reports.
 */
export interface EarlyMoves {
  /** An Application was changed. */
  note(change: Change<Application>): void;
  /** The nodes that an entry of an Application left, by its uuid. */
  of(key: string): (uuid: string) => Iterable<NodeId>;
  /** The status has a line for each entry now, or the Application is gone. */
  forget(key: string): void;
}

/** `nodeOf` finds the node that an entry names. */
export function createEarlyMoves(nodeOf: (entry: MicroserviceEntry) => EdgeNode | undefined): EarlyMoves {
  const known = new Map<string, Map<string, Map<string, NodeId>>>();

  function leave(key: string, uuid: string, node: EdgeNode) {
    const entries = known.get(key) ?? new Map<string, Map<string, NodeId>>();
    known.set(key, entries);
    const nodes = entries.get(uuid) ?? new Map<string, NodeId>();
    entries.set(uuid, nodes.set(nodeUuid(node), { node: v3Name(node), uuid: nodeUuid(node) }));
  }

  return {
    note({ key, type, object, previous }) {
      if (type === 'delete' || !previous || previous.metadata.generation === object.metadata.generation) return;
      const lines = new Set((object.status?.microservices ?? []).map(({ uuid }) => uuid));
      const now = new Map((object.spec.microservices ?? []).map((entry) => [entryUuid(object, entry), entry]));
      for (const before of previous.spec.microservices ?? []) {
        const uuid = entryUuid(previous, before);
        const entry = now.get(uuid);
        const node = lines.has(uuid) || !entry ? undefined : nodeOf(before);
        if (entry && node && nodeOf(entry) !== node) leave(key, uuid, node);
      }
    },
    of: (key) => (uuid) => known.get(key)?.get(uuid)?.values() ?? [],
    forget: (key) => void known.delete(key),
  };
}
