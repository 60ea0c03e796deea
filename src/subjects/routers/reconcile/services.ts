import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import type { Watch } from '../../../kube/mod.ts';

/** Leads to one key after every change of services as routers see them. */
export const watchServices = ({ lookups }: Pick<ControllerDependencies, 'lookups'>, key: string): Watch => ({
  whenSynced: async (signal) => lookups.services?.whenSynced(signal),
  start: (enqueue) =>
    lookups.services?.subscribe((_changed, initial) => enqueue(key, initial)) ?? { [Symbol.dispose]: () => {} },
});
