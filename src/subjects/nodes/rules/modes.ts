import type { EdgeNode } from '../../../api/v3/index.ts';
import type { PlatformFacts } from '../../../rules/part.ts';

export type RouterMode = NonNullable<EdgeNode['spec']['routerMode']>;
export type BusMode = NonNullable<EdgeNode['spec']['busMode']>;

/** The modes of a node of the system, whatever its spec says. */
export const SYSTEM_MODES = { routerMode: 'interior', busMode: 'server' } as const;

/** The mode in which a node is part of the bus: without the setting it is a leaf, where the bus is on. */
export const busModeOf = ({ spec }: EdgeNode, isBusOn: boolean): BusMode =>
  spec.isSystem ? SYSTEM_MODES.busMode : (spec.busMode ?? (isBusOn ? 'leaf' : 'none'));

/** The mode in which a node has a router: without the setting it is an edge router, where a router exists that it can connect to. */
export function routerModeOf(
  { spec }: Pick<EdgeNode, 'spec'>,
  facts: { readonly hasDefaultRouter: boolean },
): RouterMode {
  if (spec.isSystem) return SYSTEM_MODES.routerMode;
  return spec.routerMode ?? (facts.hasDefaultRouter ? 'edge' : 'none');
}

/** Whether a node is to have an interior router: no fact of the installation makes one of another node. */
export const isInteriorRouter = (node: Pick<EdgeNode, 'spec'>): boolean =>
  routerModeOf(node, { hasDefaultRouter: false }) === 'interior';

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
