import type { EdgeNode } from '../../../api/v3/index.ts';
import type { PlatformFacts } from '../../../rules/part.ts';

export interface NodeModes {
  router: NonNullable<EdgeNode['spec']['routerMode']>;
  bus: NonNullable<EdgeNode['spec']['busMode']>;
}

/**
 * The modes that a node acts in. A setting that is absent starts nothing by itself: a node is an edge router only where a router
 * exists that it can connect to, and a leaf of the bus only where the bus is on. Nodes of the system are the hub of both.
 */
export function modesOf({ spec }: EdgeNode, facts: PlatformFacts): NodeModes {
  const absent: NodeModes = spec.isSystem
    ? { router: 'interior', bus: 'server' }
    : { router: facts.hasDefaultRouter ? 'edge' : 'none', bus: facts.isBusEnabled ? 'leaf' : 'none' };
  return { router: spec.routerMode ?? absent.router, bus: spec.busMode ?? absent.bus };
}
