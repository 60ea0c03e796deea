import type { EdgeNode } from '../api/v3/index.ts';
import type { Change } from '../kube/mod.ts';
import { nodeUuid } from '../rules/identity.ts';
import { ROUTER_HUB_OBJECT } from '../rules/router-hub.ts';
import { isInteriorRouter } from '../subjects/nodes/rules/modes.ts';
import { systemApplicationName } from '../subjects/nodes/rules/system-application.ts';
import { MOST_INTERIOR_ROUTERS, withoutRoom } from '../subjects/routers/rules/interior.ts';
import type { ReadStores } from './stores.ts';

const NONE: ReadonlySet<string> = new Set();

/** The interior routers of the network, as far as there are more than it has room for. */
export interface InteriorRouters {
  /** uuids of the nodes that have no room for their router */
  leftOut(): ReadonlySet<string>;
  /** The listener is called synchronously with the uuids of nodes that have room now, or have none any more. */
  subscribe(listener: (nodes: readonly string[]) => void): Disposable;
}

/** Looks at all interior routers only while there are too many. `most` is less in tests. */
export function createInteriorRouters(
  { nodes, applications, routerHubs }: Pick<ReadStores, 'nodes' | 'applications' | 'routerHubs'>,
  namespace: string,
  most = MOST_INTERIOR_ROUTERS,
): InteriorRouters {
  const room = () => most - (routerHubs.get(namespace, ROUTER_HUB_OBJECT) ? 1 : 0);
  /** Whether the platform has made the router: it is on the network of its machine, as no edge router is. */
  function isThere(node: EdgeNode): boolean {
    const { microservices = [] } = applications.get(namespace, systemApplicationName(node))?.spec ?? {};
    return microservices.some(({ name, container }) => name === 'router' && container?.hostNetworkMode === true);
  }
  const asRouter = (node: EdgeNode) => ({
    ...{ uuid: nodeUuid(node), of: node },
    ...{ isSystem: node.spec.isSystem === true, isThere: isThere(node) },
  });
  let known: { at: string; of: ReadonlySet<string> } | undefined;
  function leftOut(): ReadonlySet<string> {
    if (nodes.countByIndex('interior', 'true') <= room()) return NONE;
    const at = [nodes.version, applications.version, routerHubs.version].join(' ');
    if (known?.at !== at) known = { at, of: withoutRoom(nodes.byIndex('interior', 'true').map(asRouter), room()) };
    return known.of;
  }
  const isConcerned = ({ object, previous }: Change<EdgeNode>) =>
    [object, previous].some((node) => node && isInteriorRouter(node));
  return {
    leftOut,
    subscribe(listener) {
      let before = leftOut();
      const look = () => {
        const now = leftOut();
        const changed = [...now, ...before].filter((uuid) => now.has(uuid) !== before.has(uuid));
        before = now;
        if (changed.length > 0) listener(changed);
      };
      const subscriptions = new DisposableStack();
      subscriptions.use(nodes.subscribe((change) => isConcerned(change) && look()));
      subscriptions.use(applications.subscribe(({ object }) => object.spec.isSystem && look()));
      subscriptions.use(routerHubs.subscribe(look));
      return subscriptions;
    },
  };
}
