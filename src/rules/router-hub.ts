/** The one object of the default router. */
export const ROUTER_HUB_OBJECT = 'default-router';

/** The default router of a cluster as routers of nodes reach it. */
export interface DefaultRouter {
  host: string;
  edgeRouterPort: number;
  interRouterPort: number;
}

/** What the configuration says of the default router in the cluster. */
export interface RouterHubOptions {
  /** the installation, and labels of what the controller makes in the cluster */
  installation: string;
  appLabel: string;
  componentDomain: string;
  image: string;
  serviceType: 'ClusterIP' | 'NodePort' | 'LoadBalancer';
}
