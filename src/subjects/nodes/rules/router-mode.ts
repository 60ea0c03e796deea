import type { EdgeNode } from '../../../api/v3/index.ts';
import { SYSTEM_MODES } from './modes.ts';

export type RouterMode = NonNullable<EdgeNode['spec']['routerMode']>;

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
