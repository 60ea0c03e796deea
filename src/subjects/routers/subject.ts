import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createRouterHubDelivery } from './reconcile/delivery.ts';
import { createRouterHubController } from './reconcile/hub.ts';
import { routerHubRoutes } from './routes/hub.ts';

/** Routers: the default router, and the routers of nodes that connect to it. */
export const routers = {
  furtherRoutes: routerHubRoutes,
  reconcilers: (deps: ControllerDependencies) => {
    const { controller: delivery, state, ends } = createRouterHubDelivery(deps);
    return {
      ofKinds: { routerHubs: createRouterHubController(deps, state) },
      further: [delivery],
      gives: { hubEnds: deps.hubEnds ?? ends },
    };
  },
};
