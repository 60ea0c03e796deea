import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { busPartsOf } from '../bus-accounts/reconcile/parts.ts';
import { createHubDelivery } from './reconcile/delivery.ts';
import { createHubController } from './reconcile/hub.ts';
import { hubRoutes } from './routes/hub.ts';

/** The servers of the message bus: the hub, its members in the cluster, and what machines with a server of their own have. */
export const busServers = {
  furtherRoutes: hubRoutes,
  reconcilers: (deps: ControllerDependencies) => {
    const parts = busPartsOf(deps);
    const { controller: delivery, states } = createHubDelivery(deps, parts);
    return { ofKinds: { busHubs: createHubController(deps, parts, states) }, further: [delivery] };
  },
};
