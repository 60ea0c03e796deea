import { routerHubRoutes } from './routes/hub.ts';

/** Routers: the default router, and the routers of nodes that connect to it. */
export const routers = { furtherRoutes: routerHubRoutes };
