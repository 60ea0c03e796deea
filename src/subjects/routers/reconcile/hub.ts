import { ROUTER_HUB_CERTIFICATES } from '../../../api/names.ts';
import type { RouterHub } from '../../../api/v3/index.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, keyFor, type Watch, watching } from '../../../kube/mod.ts';
import { systemClock } from '../../../lib/clock.ts';
import { type Progress, stalled } from '../../../rules/conditions.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import { KINDS } from '../../kinds.ts';
import { isMadeRouter } from '../rules/hub.ts';
import { bridgePortsOf, ROUTER_HUB_NAMES, routerHubHost, routerHubPairs } from '../rules/hub-objects.ts';
import type { RouterHubState } from './delivery.ts';
import { createHubRouter, type HubRouter } from './hub-router.ts';
import { watchServices } from './services.ts';

/** How often the address of a Service is looked at until the cluster has given it one. */
const ADDRESS_MS = 5_000;

/** RouterHub: makes the default router in the cluster, unless it is elsewhere, and says whether it has every service. */
export function createRouterHubController(deps: ControllerDependencies, state: RouterHubState): Controller {
  const { stores, namespace, platform, clock, lookups } = deps;
  const router = createHubRouter(deps);
  /** what the last run made, for the status of the same run */
  let made: HubRouter | undefined;
  /** the router whose configuration was written a moment ago: changes of services wait, so that many are one write */
  let written: { of: string; until: number; made: HubRouter } | undefined;

  const isMeant = ({ metadata }: RouterHub) => metadata.name === ROUTER_HUB_OBJECT;
  const serviceTypeOf = ({ spec }: RouterHub) => spec.serviceType ?? deps.routerHub?.serviceType;

  async function prepare(hub: RouterHub, signal: AbortSignal): Promise<void> {
    made = undefined;
    if (
      !isMeant(hub) ||
      !platform.hasRouters ||
      hub.metadata.deletionTimestamp ||
      KINDS.routerHubs.verdict?.(hub, () => undefined)
    )
      return;
    if (deps.routerHub && !isMadeRouter(deps, hub)) await router.remove(hub, signal);
    if (isMadeRouter(deps, hub) || hub.spec.host !== undefined) await router.keepAgentCertificate(hub, signal);
    if (!deps.routerHub || !isMadeRouter(deps, hub)) return;
    const of = `${hub.metadata.uid} ${hub.metadata.generation}`;
    if (written?.of === of && systemClock.now() < written.until) {
      made = written.made;
      return;
    }
    const { serviceType = deps.routerHub.serviceType } = hub.spec;
    const services = lookups.services?.ofHub() ?? [];
    const bridgePorts = bridgePortsOf(services, deps.services?.ports);
    const isDialed = deps.services?.isDialed === true;
    const placement = { ...deps.routerHub, namespace, serviceType, bridgePorts, isDialed };
    const own = routerHubPairs(hub, namespace, services);
    made = await router.keep(hub, placement, own, signal);
    const isWritten = made.is === 'made' && made.isWritten;
    written = isWritten ? { of, until: systemClock.now() + deps.routerHub.paceMs, made } : undefined;
  }

  const addressOf = (hub: RouterHub): string | undefined => {
    if (hub.spec.host !== undefined) return hub.spec.host;
    if (!isMadeRouter(deps, hub)) return undefined;
    return (made?.is === 'made' ? made.address : undefined) ?? routerHubHost(namespace);
  };

  function obstacle(hub: RouterHub): Progress | undefined {
    if (!isMeant(hub))
      return stalled({
        reason: 'NameTaken',
        message: `the default router of an installation is the object ${ROUTER_HUB_OBJECT}: delete this one`,
      });
    if (!platform.hasRouters)
      return stalled({ reason: 'RoutersDisabled', message: 'routers are off: ROUTERS_ENABLED is not true' });
    if (made?.is === 'taken')
      return stalled({
        reason: 'RouterHubTaken',
        message: `the ${made.what} exists and belongs to something else: delete it`,
      });
    if (made?.is === 'waiting')
      return { is: 'working', reason: 'RouterHubPending', message: 'its certificates are being made' };
    if (!isMadeRouter(deps, hub) && hub.spec.host === undefined)
      return stalled({ reason: 'RouterHubInvalid', message: 'host is required: the router is outside of the cluster' });
    const behind = (message: string): Progress => ({ is: 'working', reason: 'RouterHubBehind', message });
    const { now } = state;
    if (!now?.router) return behind('the router cannot be reached; the controller tries again');
    const [refused] = now.refused;
    if (refused) return behind(`the router refuses ${refused.name}: ${refused.message ?? 'no reason'}`);
    if (!now.isCurrent) return behind('the router does not have all services yet');
    const [left] = made?.is === 'made' ? made.leftOut : [];
    return left === undefined
      ? undefined
      : behind(`the ConfigMap ${ROUTER_HUB_NAMES.config} has what no router starts with, which is left out: ${left}`);
  }

  const stateWatch: Watch = {
    whenSynced: async () => {},
    start: (enqueue) => state.subscribe(() => enqueue(keyFor(namespace, ROUTER_HUB_OBJECT), false)),
  };
  const isOurs = (names: readonly string[]) => {
    const ours = new Set(names);
    return ({ object: { metadata } }: { object: { metadata: { name: string; namespace?: string } } }) =>
      ours.has(metadata.name) ? [keyFor(namespace, ROUTER_HUB_OBJECT)] : [];
  };
  return createKindController(deps, KINDS.routerHubs, {
    prepare,
    obstacle,
    status(hub) {
      if (!isMeant(hub)) return {};
      const host = addressOf(hub);
      const { now } = state;
      return {
        ...(host !== undefined && { host }),
        isCurrent: now?.isCurrent ?? false,
        listeners: now?.router ? Math.max(0, state.listeners - now.notUp.length) : 0,
      };
    },
    next(hub) {
      const waits = serviceTypeOf(hub) === 'LoadBalancer' && made?.is === 'made' && !made.address;
      const pause = written ? Math.max(0, written.until - systemClock.now()) : Number.POSITIVE_INFINITY;
      const ms = Math.min(pause, waits ? ADDRESS_MS : Number.POSITIVE_INFINITY);
      return Number.isFinite(ms) ? clock() + ms : undefined;
    },
    watches: [
      stateWatch,
      watchServices(deps, keyFor(namespace, ROUTER_HUB_OBJECT)),
      watching(stores.secrets, isOurs(Object.values(ROUTER_HUB_CERTIFICATES))),
      watching(stores.configMaps, isOurs([ROUTER_HUB_NAMES.config])),
    ],
  });
}
