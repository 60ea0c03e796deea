import type { EdgeNode } from '../../api/v3/index.ts';
import type { Verdict, World } from '../inputs.ts';
import { nameTaken, nodeUuid, uuidTaken, v3Name } from '../names.ts';

/** Why a node may not act: its name or its uuid belongs to an older one. */
export function nodeVerdict(node: EdgeNode, world: Pick<World, 'nodeByName' | 'nodeByUuid'>): Verdict | undefined {
  const byName = world.nodeByName(v3Name(node));
  if (byName && byName.metadata.uid !== node.metadata.uid) return nameTaken('node', v3Name(node), byName.metadata.name);
  const byUuid = world.nodeByUuid(nodeUuid(node));
  if (byUuid && byUuid.metadata.uid !== node.metadata.uid)
    return uuidTaken('node', nodeUuid(node), byUuid.metadata.name);
  return undefined;
}
