import { oauthRoutes } from './routes/oauth.ts';

/** People and their logins. */
export const identity = {
  furtherRoutes: oauthRoutes,
};
