import type { EdgeNode } from '../../../api/v3/index.ts';
import type { PlatformFacts } from '../../../rules/part.ts';
import { type BusMode, busModeOf } from '../../nodes/rules/modes.ts';
import { type RouterMode, routerModeOf } from '../../nodes/rules/router-mode.ts';

export interface NodeModes {
  router: RouterMode;
  bus: BusMode;
}

/**
 * The modes that a node acts in. A setting that is absent starts nothing by itself: a node is an edge router only where a router
 * exists that it can connect to, and a leaf of the bus only where the bus is on. Nodes of the system are the hub of both, whatever
 * their spec says.
 */
export const modesOf = (node: EdgeNode, facts: PlatformFacts): NodeModes => ({
  router: routerModeOf(node, facts),
  bus: busModeOf(node, facts.isBusEnabled),
});
