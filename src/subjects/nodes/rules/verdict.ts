import type { EdgeNode } from '../../../api/v3/index.ts';
import { nameTaken, nodeUuid, uuidTaken } from '../../../rules/identity.ts';
import type { Lookups } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import type { Verdict } from '../../../rules/verdict.ts';

/** Why a node may not act: its name or its uuid belongs to an older one. */
export function nodeVerdict(node: EdgeNode, lookups: Pick<Lookups, 'nodeByName' | 'nodeByUuid'>): Verdict | undefined {
  const byName = lookups.nodeByName(v3Name(node));
  if (byName && byName.metadata.uid !== node.metadata.uid) return nameTaken('node', v3Name(node), byName.metadata.name);
  const byUuid = lookups.nodeByUuid(nodeUuid(node));
  if (byUuid && byUuid.metadata.uid !== node.metadata.uid)
    return uuidTaken('node', nodeUuid(node), byUuid.metadata.name);
  return undefined;
}
