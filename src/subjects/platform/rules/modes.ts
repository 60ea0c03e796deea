import type { EdgeNode } from '../../../api/v3/index.ts';
import type { PlatformFacts } from '../../../rules/part.ts';
import { type BusMode, busModeOf, SYSTEM_MODES } from '../../nodes/rules/modes.ts';

export interface NodeModes {
  router: NonNullable<EdgeNode['spec']['routerMode']>;
  bus: BusMode;
}

/**
 * The modes that a node acts in. A setting that is absent starts nothing by itself: a node is an edge router only where a router
 * exists that it can connect to, and a leaf of the bus only where the bus is on. Nodes of the system are the hub of both, whatever
 * their spec says.
 */
export function modesOf(node: EdgeNode, facts: PlatformFacts): NodeModes {
  const { isSystem, routerMode } = node.spec;
  const unset = () => (facts.hasDefaultRouter ? 'edge' : 'none');
  return {
    router: isSystem ? SYSTEM_MODES.routerMode : (routerMode ?? unset()),
    bus: busModeOf(node, facts.isBusEnabled),
  };
}
