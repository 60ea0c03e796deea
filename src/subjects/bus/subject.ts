import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createAccessController } from './reconcile/access.ts';
import { createAccountController } from './reconcile/account.ts';
import { createHubDelivery } from './reconcile/delivery.ts';
import { createHubController } from './reconcile/hub.ts';
import { createBusNodesController } from './reconcile/nodes.ts';
import { createOperatorController } from './reconcile/operator.ts';
import { createBusParts } from './reconcile/parts.ts';
import { createAccountRuleController, createUserRuleController } from './reconcile/rule-objects.ts';
import { createBusSystemController } from './reconcile/system.ts';
import { createUserController } from './reconcile/user.ts';
import { busAccountRoutes } from './routes/accounts.ts';
import { hubRoutes } from './routes/hub.ts';
import { busOperatorRoutes } from './routes/operator.ts';
import { busAccountRuleRoutes } from './routes/rules.ts';
import { busUserRoutes } from './routes/users.ts';

/** The message bus: who may connect to it, and by what rules and servers. */
export const bus = {
  routes: {
    busAccountRules: busAccountRuleRoutes,
    busOperators: busOperatorRoutes,
    busAccounts: busAccountRoutes,
    busUsers: busUserRoutes,
  },
  furtherRoutes: hubRoutes,
  reconcilers: (deps: ControllerDependencies) => {
    const parts = createBusParts(deps);
    const { controller: delivery, states } = createHubDelivery(deps, parts);
    return {
      ofKinds: {
        busAccountRules: createAccountRuleController(deps),
        busUserRules: createUserRuleController(deps),
        busHubs: createHubController(deps, parts, states),
        busOperators: createOperatorController(deps, parts),
        busAccounts: createAccountController(deps, parts),
        busUsers: createUserController(deps, parts),
      },
      further: [
        delivery,
        createBusSystemController(deps, parts),
        createAccessController(deps),
        createBusNodesController(deps),
      ],
    };
  },
};
