import type { Application, EdgeNode, MicroserviceEntry } from '../../../../api/v3/index.ts';
import type { Lookups } from '../../../../rules/inputs.ts';
import { currentNodeOf, nodeOf } from './entries.ts';

/** An entry that uses an object, and its application. */
export interface EntryUse {
  application: Application;
  entry: MicroserviceEntry;
}

/** A node that an object reaches: by a link, by an entry that runs there, or by an entry that is to move there. */
export interface ReachedNode {
  node: EdgeNode;
  by: 'link' | 'entry' | 'move';
}

/** The node that a link names, by uuid or name. */
export const linkedNode =
  ({ nodeByUuid, nodeByName }: Pick<Lookups, 'nodeByUuid' | 'nodeByName'>) =>
  (name: string): EdgeNode | undefined =>
    nodeByUuid(name) ?? nodeByName(name);

/** The nodes that an object reaches, a node once for each reason. */
export function* reach(
  { spec: { nodes = [] } }: { spec: { nodes?: readonly string[] | undefined } },
  uses: Iterable<EntryUse>,
  lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid'>,
  linked = linkedNode(lookups),
): Iterable<ReachedNode> {
  for (const name of nodes) {
    const node = linked(name);
    if (node) yield { node, by: 'link' };
  }
  for (const { application, entry } of uses) {
    const node = currentNodeOf(application, entry, lookups);
    if (node) yield { node, by: 'entry' };
    const next = nodeOf(entry, lookups);
    if (next && next !== node) yield { node: next, by: 'move' };
  }
}
