import { ROUTER_HUB_CERTIFICATES } from '../api/names.ts';
import { ROUTER_HUB_OBJECT, type RouterHubOptions } from '../rules/router-hub.ts';
import { routerHubTarget } from '../subjects/routers/rules/hub-objects.ts';
import { decodeData } from './keyed-text.ts';
import type { Stores } from './stores.ts';

/** The certificate by which the controller is a client of the default router, as texts; undefined: it is not made yet. */
export function routerHubClient(
  { secrets }: Pick<Stores, 'secrets'>,
  namespace: string,
): { ca: string; cert: string; key: string } | undefined {
  const texts = decodeData(secrets.get(namespace, ROUTER_HUB_CERTIFICATES.agent)?.data);
  const { 'ca.crt': ca, 'tls.crt': cert, 'tls.key': key } = texts;
  return ca && cert && key ? { ca, cert, key } : undefined;
}

/** The default router as every replica reaches it, with a certificate of the platform. */
export function createRelayRouter(
  stores: Pick<Stores, 'routerHubs' | 'secrets'>,
  deps: { namespace: string; routerHub?: RouterHubOptions },
) {
  const { namespace } = deps;
  return {
    hosts(): readonly { host: string; port: number }[] {
      const hub = stores.routerHubs.get(namespace, ROUTER_HUB_OBJECT);
      const target = hub && !hub.metadata.deletionTimestamp ? routerHubTarget(deps, hub) : undefined;
      return target && routerHubClient(stores, namespace) ? [target] : [];
    },
    tls() {
      const client = routerHubClient(stores, namespace);
      if (!client) throw new Error(`the certificate ${ROUTER_HUB_CERTIFICATES.agent} is not made yet`);
      return client;
    },
  };
}
