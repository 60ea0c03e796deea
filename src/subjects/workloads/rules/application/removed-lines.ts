import { BOUNDS } from '../../../../api/bounds.ts';
import type { EdgeNode } from '../../../../api/v3/index.ts';
import { cut } from '../../../../rules/conditions.ts';
import { hasContainer } from '../../../../rules/deletion.ts';
import { nodeUuid } from '../../../../rules/identity.ts';
import { entryUuid, v3Name } from '../../../../rules/names.ts';
import { removedState } from '../../../nodes/rules/microservice-state.ts';
import { currentNodeAmong } from '../../../nodes/rules/placement/entries.ts';
import { isNode } from '../../../nodes/rules/placement/moves.ts';
import type { ApplicationStatusInputs, StatusLine } from './status-inputs.ts';

/** Microservices that a node still reports although no entry places them there any more. */
export function removedLines(inputs: ApplicationStatusInputs, entries: readonly StatusLine[]): StatusLine[] {
  const { application, identity, nodes, verdicts } = inputs;
  // Items under the name of another application with this v3 name belong to the owner of the name.
  if ([identity, ...verdicts.values()].some((one) => one?.reason === 'NameTaken')) return [];
  const name = v3Name(application);
  const taken = new Set((application.spec.microservices ?? []).map((entry) => entry.name));
  const placed = new Map<EdgeNode | undefined, string[]>();
  for (const entry of application.spec.microservices ?? []) {
    const node = currentNodeAmong(entry, inputs)?.node;
    placed.set(node, [...(placed.get(node) ?? []), entryUuid(application, entry)]);
  }
  return nodes.flatMap(({ node, liveness }) => {
    if (liveness === 'never') return [];
    // The line of a microservice that moved and is to run says itself where it may still run.
    const moved = new Set(
      entries
        .filter(({ wanted, formerNodes = [] }) => wanted && formerNodes.some((former) => isNode(former, node)))
        .map(({ uuid }) => uuid),
    );
    const here = new Set(placed.get(node));
    return (node.status?.microservices ?? [])
      .filter(
        (item) => item.application === name && !here.has(item.uuid) && !moved.has(item.uuid) && hasContainer(item),
      )
      .map((item): StatusLine => {
        const shown = item.name ?? item.uuid;
        // The list is a map by name: the API server refuses a status with two equal names.
        const unique = [shown, `${shown} (on ${v3Name(node)})`].find((one) => !taken.has(cut(one, BOUNDS.name)));
        const name = unique === undefined ? item.uuid : cut(unique, BOUNDS.name);
        taken.add(name);
        return {
          name,
          uuid: item.uuid,
          node: v3Name(node),
          nodeUuid: nodeUuid(node),
          state: removedState(item.state, liveness),
          wanted: false,
          progress:
            liveness === 'silent'
              ? {
                  is: 'unknown',
                  reason: 'NodeUnreachable',
                  message: `removed, but may still run: nothing is heard of the node ${v3Name(node)}`,
                }
              : { is: 'working', reason: 'Removing', message: `is being removed from ${v3Name(node)}` },
        };
      });
  });
}
