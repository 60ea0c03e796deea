import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createServiceAccountController } from './reconcile/service-account.ts';
import { serviceAccountRoutes } from './routes/service-accounts.ts';

/** Identities of microservices: ServiceAccount. */
export const accounts = {
  routes: { serviceAccounts: serviceAccountRoutes },
  reconcilers: (deps: ControllerDependencies) => ({
    ofKinds: { serviceAccounts: createServiceAccountController(deps) },
  }),
};
