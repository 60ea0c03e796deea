import type { EdgeNode } from '../../../api/v3/index.ts';

export type BusMode = NonNullable<EdgeNode['spec']['busMode']>;

/** The modes of a node of the system, whatever its spec says. */
export const SYSTEM_MODES = { routerMode: 'interior', busMode: 'server' } as const;

/** The mode in which a node is part of the bus: without the setting it is a leaf, where the bus is on. */
export const busModeOf = ({ spec }: EdgeNode, isBusOn: boolean): BusMode =>
  spec.isSystem ? SYSTEM_MODES.busMode : (spec.busMode ?? (isBusOn ? 'leaf' : 'none'));
