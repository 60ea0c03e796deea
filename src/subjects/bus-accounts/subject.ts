import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createAccessController } from './reconcile/access.ts';
import { createAccountController } from './reconcile/account.ts';
import { createBusNodesController } from './reconcile/nodes.ts';
import { createOperatorController } from './reconcile/operator.ts';
import { busPartsOf } from './reconcile/parts.ts';
import { createBusSystemController } from './reconcile/system.ts';
import { createUserController } from './reconcile/user.ts';
import { busAccountRoutes } from './routes/accounts.ts';
import { busOperatorRoutes } from './routes/operator.ts';
import { busUserRoutes } from './routes/users.ts';

/** Who may connect to the message bus: its operator, the accounts of applications, the users of microservices and devices. */
export const busAccounts = {
  routes: { busOperators: busOperatorRoutes, busAccounts: busAccountRoutes, busUsers: busUserRoutes },
  reconcilers: (deps: ControllerDependencies) => {
    const parts = busPartsOf(deps);
    return {
      ofKinds: {
        busOperators: createOperatorController(deps, parts),
        busAccounts: createAccountController(deps, parts),
        busUsers: createUserController(deps, parts),
      },
      further: [createBusSystemController(deps, parts), createAccessController(deps), createBusNodesController(deps)],
    };
  },
};
