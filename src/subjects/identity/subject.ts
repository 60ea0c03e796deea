import type { ControllerDependencies } from '../../controllers/dependencies.ts';
import { createAuthUserController } from './reconcile/auth-user.ts';
import { groupRoutes } from './routes/groups.ts';
import { interactionRoutes } from './routes/interaction.ts';
import { mfaRoutes } from './routes/mfa.ts';
import { oauthRoutes } from './routes/oauth.ts';
import { ownAccountRoutes } from './routes/own-account.ts';
import { userRoutes } from './routes/users.ts';

/** People who log in at the controller: AuthUser, AuthGroup, AuthPolicy. */
export const identity = {
  furtherRoutes: [
    ...ownAccountRoutes,
    ...mfaRoutes,
    ...interactionRoutes,
    ...oauthRoutes,
    ...userRoutes,
    ...groupRoutes,
  ],
  reconcilers: (deps: ControllerDependencies) => ({ ofKinds: { authUsers: createAuthUserController(deps) } }),
};
