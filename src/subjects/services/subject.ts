import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createServiceController } from './reconcile/service.ts';
import { serviceRoutes } from './routes/services.ts';

/** TCP ports of backends that clients reach through routers: Service. */
export const services = {
  routes: { services: serviceRoutes },
  reconcilers: (deps: ControllerDependencies) => ({ ofKinds: { services: createServiceController(deps) } }),
};
