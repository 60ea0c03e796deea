import type { EdgeNode } from '../../../api/v3/index.ts';
import { SYSTEM_MODES } from './settings.ts';

export type BusMode = NonNullable<EdgeNode['spec']['busMode']>;

/** The mode in which a node is part of the bus: without the setting it is a leaf, where the bus is on. */
export const busModeOf = ({ spec }: EdgeNode, isBusEnabled: boolean): BusMode =>
  spec.isSystem ? SYSTEM_MODES.busMode : (spec.busMode ?? (isBusEnabled ? 'leaf' : 'none'));
