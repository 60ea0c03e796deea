import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createLeftovers } from './reconcile/leftovers.ts';
import { roleBindingRoutes } from './routes/role-bindings.ts';
import { roleRoutes } from './routes/roles.ts';

/** Roles and role bindings, which are Roles and RoleBindings of the cluster. */
export const access = {
  furtherRoutes: [...roleRoutes, ...roleBindingRoutes],
  reconcilers: (deps: ControllerDependencies) => ({ further: createLeftovers(deps) }),
};
