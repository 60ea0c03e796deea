/** The one object of the default router. */
export const ROUTER_HUB_OBJECT = 'default-router';

/** Ports of routers, where nothing else is set. */
export const ROUTER_PORTS = { messagingPort: 5671, edgeRouterPort: 45671, interRouterPort: 55671 } as const;

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
  /** least time between two writes of the configuration from which it starts, ms */
  paceMs: number;
}

/** One end of a service at the default router. Ports are texts. */
export interface RouterHubEnd {
  port: string;
  /** of a connector */
  host?: string;
  /** why it does not work: the router refuses it, it failed, or it waits for a connector */
  problem?: { is: 'refused' | 'failed' | 'waiting'; message?: string };
}

/** What the leader knows of the ends of services at the running default router. */
export interface RouterHubEnds {
  /** whether there is a default router at all */
  readonly isThere: boolean;
  /** Unix ms since when the router is not reached; undefined: it is */
  readonly unreachedSince: number | undefined;
  /** by the name of the listener or connector, as of the last comparison; undefined: it has none, or was not compared yet */
  of(name: string): RouterHubEnd | undefined;
  /** The listener is called with the names of ends that are others now; with none when the router is reached, or no longer. */
  subscribe(listener: (names: readonly string[]) => void): Disposable;
}
