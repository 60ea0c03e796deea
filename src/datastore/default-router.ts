import { type DefaultRouter, ROUTER_HUB_OBJECT } from '../rules/router-hub.ts';
import { routerHubSettings } from '../subjects/routers/rules/hub.ts';
import type { ReadStores } from './stores.ts';

/** The default router of the cluster, once it has an address. */
export function defaultRouterOf(
  { routerHubs }: Pick<ReadStores, 'routerHubs'>,
  namespace: string,
): DefaultRouter | undefined {
  const hub = routerHubs.get(namespace, ROUTER_HUB_OBJECT);
  if (!hub || hub.metadata.deletionTimestamp !== undefined) return undefined;
  const { host, edgeRouterPort, interRouterPort } = routerHubSettings(hub);
  return host === undefined ? undefined : { host, edgeRouterPort, interRouterPort };
}
