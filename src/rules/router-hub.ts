/** The one object of the default router. */
export const ROUTER_HUB_OBJECT = 'default-router';

/** The default router of a cluster as routers of nodes reach it. */
export interface DefaultRouter {
  host: string;
  edgeRouterPort: number;
  interRouterPort: number;
}
