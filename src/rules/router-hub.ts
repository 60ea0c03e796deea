/** The one object of the default router. */
export const ROUTER_HUB_OBJECT = 'default-router';
