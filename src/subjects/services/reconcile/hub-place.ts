import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import {
  isMadeRouter,
  type RouterHubSettings,
  routerHubSettings,
  routerHubSettingsOfNode,
} from '../../routers/rules/hub.ts';
import { routerPodHost } from '../../routers/rules/hub-objects.ts';

/** What services need to know of the default router, which is a node outside of a cluster and else the RouterHub. */
export interface RouterHubPlace {
  /** the ports that it has for itself: no service gets one of them */
  ports(): readonly number[];
  /** the address at which all its ports are; undefined while nobody knows it */
  host(): string | undefined;
}

/** Reads it anew with each question. */
export function routerHubPlace(deps: ControllerDependencies): RouterHubPlace {
  const { stores, lookups, namespace } = deps;
  if (deps.controlPlane !== 'kubernetes')
    return {
      ports: () => lookups.systemNodes().flatMap((node) => portsOf(routerHubSettingsOfNode(node))),
      host() {
        const [node] = lookups.systemNodes();
        return node && hostOf(node);
      },
    };
  const present = () => stores.routerHubs.get(namespace, ROUTER_HUB_OBJECT);
  return {
    ports() {
      const hub = present();
      return hub ? portsOf(routerHubSettings(hub)) : [];
    },
    host() {
      const hub = present();
      return hub && isMadeRouter(deps, hub) ? routerPodHost(namespace) : hub?.spec.host;
    },
  };
}

const portsOf = ({ messagingPort, edgeRouterPort, interRouterPort }: RouterHubSettings): number[] => [
  messagingPort,
  edgeRouterPort,
  interRouterPort,
];
