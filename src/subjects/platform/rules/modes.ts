import type { EdgeNode } from '../../../api/v3/index.ts';
import type { PlatformFacts } from '../../../rules/part.ts';
import { SYSTEM_MODES } from '../../nodes/rules/settings.ts';

export interface NodeModes {
  router: NonNullable<EdgeNode['spec']['routerMode']>;
  bus: NonNullable<EdgeNode['spec']['busMode']>;
}

/**
 * The modes that a node acts in. A setting that is absent starts nothing by itself: a node is an edge router only where a router
 * exists that it can connect to, and a leaf of the bus only where the bus is on. Nodes of the system are the hub of both, whatever
 * their spec says.
 */
export function modesOf({ spec }: EdgeNode, facts: PlatformFacts): NodeModes {
  if (spec.isSystem) return { router: SYSTEM_MODES.routerMode, bus: SYSTEM_MODES.busMode };
  return {
    router: spec.routerMode ?? (facts.hasDefaultRouter ? 'edge' : 'none'),
    bus: spec.busMode ?? (facts.isBusEnabled ? 'leaf' : 'none'),
  };
}
