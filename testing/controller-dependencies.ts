import type { ControllerDependencies } from '../src/controllers/dependencies.ts';
import { createIds } from '../src/datastore/ids.ts';
import { createLookups } from '../src/datastore/lookups.ts';
import { createIdLookup, type Stores } from '../src/datastore/stores.ts';
import type { KubeClient } from '../src/kube/mod.ts';
import { silentLog } from '../src/lib/log.ts';
import { KINDS, type Kinds } from '../src/subjects/kinds.ts';

/** Dependencies of reconcilers over these stores; their events are recorded nowhere. */
export function controllerDependencies(client: KubeClient, namespace: string, stores: Stores, kinds: Kinds = KINDS) {
  const ids = createIds({ client, namespace, withId: createIdLookup(stores, kinds) });
  return {
    ...{ client, namespace, stores, kinds, ids, lookups: createLookups(stores) },
    platform: { parts: [], isBusEnabled: false, isRemote: false },
    ...{ events: { record: () => {} }, log: silentLog, metrics: {}, clock: Date.now },
  } as unknown as ControllerDependencies;
}
