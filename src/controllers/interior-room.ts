import { keyOf, type Watch } from '../kube/mod.ts';
import type { ControllerDependencies } from './dependencies.ts';

/** Leads to the nodes for whose interior router the network has room now, or has none any more. */
export const watchInteriorRoom = ({ stores, lookups }: Pick<ControllerDependencies, 'stores' | 'lookups'>): Watch => ({
  whenSynced: async () => {},
  start: (enqueue) =>
    lookups.interiorRouters?.subscribe((uuids) => {
      for (const node of uuids.flatMap((uuid) => stores.nodes.byIndex('uuid', uuid))) enqueue(keyOf(node), false);
    }) ?? { [Symbol.dispose]: () => {} },
});
