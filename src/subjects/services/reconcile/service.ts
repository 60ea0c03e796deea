import { LABELS } from '../../../api/names.ts';
import type { Service, ServiceStatus } from '../../../api/v3/service.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Controller, keyFor, keyOf, type Watch, watching } from '../../../kube/mod.ts';
import { systemClock } from '../../../lib/clock.ts';
import { dialPort } from '../../../router-client/dial.ts';
import type { Finding, Findings, Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import { platformFacts } from '../../../rules/part.ts';
import { KINDS } from '../../kinds.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import { isRouterReachedAlike } from '../../routers/rules/hub.ts';
import { annotationsOf } from '../rules/annotations.ts';
import { backendOf } from '../rules/backend.ts';
import { ATTEMPTS, requestedReconciles } from '../rules/provisioning.ts';
import { hasClusterService, placeVerdict } from '../rules/verdict.ts';
import { affectedServices, isOtherNode, isOtherSystemNode } from './affected.ts';
import { createBackendEnd } from './backend-end.ts';
import { BridgePorts } from './bridge-ports.ts';
import { type DialTarget, ServiceDials } from './dials.ts';
import { routerHubPlace } from './hub-place.ts';
import { type ServiceLink, ServiceLinks } from './links.ts';
import { createServiceSteps } from './provisioning.ts';

const kind = KINDS.services;

/** Service: gives it its port, makes its Service of the cluster, follows its backend, and says how far it is. */
export function createServiceController(deps: ControllerDependencies): Controller {
  const { stores, lookups, clock, namespace, services: settings } = deps;
  const facts = platformFacts(deps.platform, lookups);
  const router = routerHubPlace(deps);
  const affected = affectedServices(stores.services, lookups);
  const ports = settings && new BridgePorts(settings.ports, stores.services, clock, router.ports);
  const provisioning = settings && createServiceSteps(deps, settings);
  const end = createBackendEnd(deps);
  const isOn = settings?.isEnabled === true;
  const counted = new WeakMap<Service, ServiceLink>();
  const links = settings && isOn ? new ServiceLinks(deps, settings, facts) : undefined;
  const isRemote = deps.controlPlane !== 'kubernetes';
  /** of this term */
  let dials: ServiceDials | undefined;

  const verdictOn = (service: Service) =>
    kind.verdict?.(service, () => undefined) ??
    placeVerdict(service, { lookups, controlPlane: deps.controlPlane, facts });

  /** The port of a service: a wrong service keeps the port that it has, and gets none. */
  const portOf = (service: Service): number | undefined =>
    isOn && !verdictOn(service) ? ports?.grant(service) : service.status?.bridgePort;

  async function prepare(service: Service, signal: AbortSignal): Promise<void> {
    counted.delete(service);
    if (!isOn || !provisioning || service.metadata.deletionTimestamp || verdictOn(service)) return;
    const port = portOf(service);
    // Nothing leads to a port that is not written down.
    if (port !== undefined && port === service.status?.bridgePort) await provisioning.attempt(service, port, signal);
  }

  function obstacle(service: Service): Progress | undefined {
    if (!isOn || !settings || !provisioning)
      return stalled({
        reason: 'RoutersDisabled',
        message: 'routers and services are off: ROUTERS_ENABLED is not true',
      });
    const verdict = verdictOn(service);
    if (verdict) return stalledBy(verdict);
    const port = portOf(service);
    if (port === undefined) {
      const { first, last } = settings.ports;
      const message = `all ports from ${first} to ${last} belong to other services, or did until a few minutes ago; delete one, or widen BRIDGE_PORTS_RANGE`;
      return stalled({ reason: 'BridgePortsUsedUp', message });
    }
    if (port !== service.status?.bridgePort)
      return { is: 'working', reason: 'BridgePortPending', message: `the port ${port} is being written down` };
    if (lookups.services?.leftOut().has(service.metadata.name))
      return stalled({
        reason: 'RouterHubFull',
        message: 'the configuration of the default router has no room for it: delete services that nobody needs',
      });
    const wrong = provisioning.obstacle(service);
    if (wrong) return wrong;
    const lacks = linkOf(service)?.hubLacks;
    if (lacks !== undefined) return { is: 'working', reason: 'HubPending', message: lacks };
    const { illegal } = annotationsOf(service.spec.tags ?? []);
    if (illegal.length === 0 || !hasClusterService(service, settings.controlPlane)) return undefined;
    const named = illegal.map((tag) => JSON.stringify(tag.slice(0, 64))).join(', ');
    return { is: 'done', reason: 'Usable', message: `the service can be used; no keys of annotations: ${named}` };
  }

  /** How far it is. What somebody has to change fails at once, since no attempt would mend it. */
  function stepOf(service: Service, port: number | undefined): Partial<ServiceStatus> {
    const problem = isOn ? obstacle(service) : undefined;
    const attempts = provisioning?.failures(service) ?? 0;
    const counted = attempts > 0 ? { attempts } : {};
    if (!isOn) return { provisioningStatus: 'pending' };
    if (!problem || problem.is === 'done') return { provisioningStatus: 'ready' };
    if (port === undefined || verdictOn(service) || attempts >= ATTEMPTS)
      return { provisioningStatus: 'failed', provisioningError: (problem.message ?? '').slice(0, 1024), ...counted };
    return { provisioningStatus: 'pending', ...counted };
  }

  function status(service: Service): Partial<ServiceStatus> {
    const port = portOf(service);
    const backend = backendOf(service, lookups);
    const recorded = backend && { uuid: backend.uuid, object: backend.object };
    const kept =
      service.status?.observedGeneration === service.metadata.generation ? service.status?.backend : undefined;
    const listeners = linkOf(service)?.listeners ?? service.status?.listeners;
    const reconciles = requestedReconciles(service);
    return {
      ...(port !== undefined && { bridgePort: port }),
      ...(reconciles > 0 && { reconciles }),
      ...((recorded ?? kept) && { backend: recorded ?? kept }),
      ...endpointOf(service, port),
      ...stepOf(service, port),
      ...(isOn && listeners && { listeners }),
    };
  }

  function endpointOf(service: Service, port: number | undefined): Partial<ServiceStatus> {
    if (!isRemote) {
      const address = provisioning?.address(service);
      return address === undefined ? {} : { serviceEndpoint: address };
    }
    const [hub] = stores.nodes.byIndex('system', 'true');
    const host = hub && hostOf(hub);
    return { ...(host !== undefined && { serviceEndpoint: host }), ...(port !== undefined && { servicePort: port }) };
  }

  function next(service: Service): number | undefined {
    if (!isOn || !ports || !provisioning || verdictOn(service)) return undefined;
    const port = portOf(service);
    if (port === undefined) return ports.nextAt;
    if (port !== service.status?.bridgePort) return clock();
    const due = [provisioning.nextAt(service), links?.nextAt(service)].flatMap((at) => at ?? []);
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  const allKeys = (): string[] => stores.services.list().map(keyOf);
  /** Leads to the services for which the default router has room now, and to those for which it has none any more. */
  const roomWatch: Watch = {
    whenSynced: async () => {},
    start(enqueue) {
      let before: ReadonlySet<string> = new Set();
      const subscription = lookups.services?.subscribe(() => {
        const leftOut = lookups.services?.leftOut() ?? new Set<string>();
        const changed = [...leftOut, ...before].filter((name) => leftOut.has(name) !== before.has(name));
        before = leftOut;
        for (const name of changed) enqueue(keyFor(namespace, name), false);
      });
      return subscription ?? { [Symbol.dispose]: () => {} };
    },
  };

  const linksWatch: Watch = {
    whenSynced: async () => {},
    start() {
      const watches = new DisposableStack();
      if (!links) return watches;
      const enqueue = (key: string, afterMs: number) => controller.enqueue(key, { afterMs });
      watches.use(links.watch(enqueue));
      if (!settings?.isDialed) return watches;
      dials = watches.use(
        new ServiceDials({
          ...{ dial: dialPort, clock: systemClock, random: Math.random },
          changed: (name) => links.touch(name, enqueue),
        }),
      );
      return watches;
    },
  };

  /** Where a client of the default router dials a service; undefined: nobody dials it. */
  function dialTarget(service: Service, ends: Findings): DialTarget | undefined {
    const port = service.status?.bridgePort;
    if (!settings?.isDialed || port === undefined || service.metadata.deletionTimestamp || verdictOn(service))
      return undefined;
    const host = router.host();
    const { type, resource, targetPort } = service.spec;
    const because = JSON.stringify([type, resource, targetPort, ...Object.values(ends).map((end) => end?.status)]);
    return host === undefined ? undefined : { host, port, because };
  }

  const controller = createKindController(deps, kind, {
    takeOver: (service, signal) => (isOn ? end.takeOver(service, signal) : undefined),
    labels(service): Record<string, string> {
      const port = portOf(service);
      return port === undefined ? {} : { [LABELS.bridgePort]: String(port) };
    },
    prepare,
    obstacle,
    conditions(service) {
      if (!isOn) return {};
      const { connected = findingIn(service, 'Connected'), listening = findingIn(service, 'Listening') } =
        linkOf(service) ?? {};
      const ends = { Connected: connected, Listening: listening };
      const target = dialTarget(service, ends);
      const reachable = dials?.of(service.metadata.name, target);
      return { ...ends, ...(target && { Reachable: reachable ?? findingIn(service, 'Reachable') }) };
    },
    status,
    next,
    watches: [
      linksWatch,
      roomWatch,
      watching(stores.routerHubs, (change) => {
        const { initial, type, object, previous } = change;
        const isSame = type !== 'delete' && previous !== undefined && isRouterReachedAlike(object, previous);
        if (initial || isSame) return [];
        ports?.hubChanged();
        return allKeys();
      }),
      ...(provisioning ? [provisioning.watch] : []),
      watching(stores.services, (change) => {
        if (change.type === 'delete') {
          provisioning?.forget(change.key);
          dials?.forget(change.object.metadata.name);
        }
        return ports?.affected(change) ?? [];
      }),
      watching(stores.applications, (change) => (change.initial ? [] : affected.byApplication(change))),
      watching(stores.nodes, (change) => {
        if (change.initial || !isOtherNode(change)) return [];
        if (isRemote && isOtherSystemNode(change)) return allKeys();
        return affected.byNode(change);
      }),
    ],
  });

  return controller;

  /** What routers have of a service whose port is written down, once for each run. */
  function linkOf(service: Service): ServiceLink | undefined {
    if (service.status?.bridgePort === undefined || verdictOn(service)) return undefined;
    const link = counted.get(service) ?? links?.of(service);
    if (link) counted.set(service, link);
    return link;
  }
}

/** The finding of a former status, which stays while nothing newer is known. */
function findingIn({ status }: Service, type: 'Connected' | 'Listening' | 'Reachable'): Finding | undefined {
  const found = status?.conditions?.find((one) => one.type === type);
  return found && { status: found.status, reason: found.reason as Finding['reason'], message: found.message };
}
