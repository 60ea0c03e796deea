import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createAccountRuleController, createUserRuleController } from './reconcile/rule-objects.ts';
import { busAccountRuleRoutes } from './routes/rules.ts';

/** What accounts and users of the message bus may do, and the tokens that say it to servers. */
export const busRules = {
  routes: { busAccountRules: busAccountRuleRoutes },
  reconcilers: (deps: ControllerDependencies) => ({
    ofKinds: {
      busAccountRules: createAccountRuleController(deps),
      busUserRules: createUserRuleController(deps),
    },
  }),
};
