import { LABELS } from '../../../api/names.ts';
import type { Application, EdgeNode } from '../../../api/v3/index.ts';
import type { Service, ServiceStatus } from '../../../api/v3/service.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createKindController } from '../../../controllers/kind.ts';
import { type Change, type Controller, keyFor, keyOf, type Watch, watching } from '../../../kube/mod.ts';
import { systemClock } from '../../../lib/clock.ts';
import { dialPort } from '../../../router-client/dial.ts';
import type { Finding, Findings, Progress } from '../../../rules/conditions.ts';
import { stalled } from '../../../rules/conditions.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { stalledBy } from '../../../rules/kind-status.ts';
import { entryUuid, v3Name } from '../../../rules/names.ts';
import { platformFacts } from '../../../rules/part.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import { KINDS } from '../../kinds.ts';
import { recordedNode } from '../../nodes/rules/placement/moves.ts';
import { hostOf } from '../../nodes/rules/settings.ts';
import {
  isMadeRouter,
  isRouterReachedAlike,
  type RouterHubSettings,
  routerHubSettings,
  routerHubSettingsOfNode,
} from '../../routers/rules/hub.ts';
import { routerPodHost } from '../../routers/rules/hub-objects.ts';
import { annotationsOf } from '../rules/annotations.ts';
import { backendOf, namesOfNode } from '../rules/backend.ts';
import { ATTEMPTS, requestedReconciles } from '../rules/provisioning.ts';
import { hasClusterService, placeVerdict } from '../rules/verdict.ts';
import { createBackendEnd } from './backend-end.ts';
import { BridgePorts } from './bridge-ports.ts';
import { type DialTarget, ServiceDials } from './dials.ts';
import { type ServiceLink, ServiceLinks } from './links.ts';
import { createServiceSteps } from './provisioning.ts';

const kind = KINDS.services;

/** Service: gives it its port, makes its Service of the cluster, follows its backend, and says how far it is. */
export function createServiceController(deps: ControllerDependencies): Controller {
  const { stores, lookups, clock, namespace, services: settings } = deps;
  const facts = platformFacts(deps.platform, lookups);
  const ports = settings && new BridgePorts(settings.ports, stores.services, clock, hubPorts);
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

  const keysOf = (resources: Iterable<string>): string[] =>
    [...resources]
      .flatMap((one) => [...stores.services.byIndex('resource', one), ...stores.services.byIndex('backend', one)])
      .map(keyOf);

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

  /** The ports that the default router has for itself: no service gets one of them. */
  function hubPorts(): readonly number[] {
    if (isRemote) return lookups.systemNodes().flatMap((node) => portsOf(routerHubSettingsOfNode(node)));
    const hub = stores.routerHubs.get(namespace, ROUTER_HUB_OBJECT);
    return hub ? portsOf(routerHubSettings(hub)) : [];
  }

  /** Where a client of the default router dials a service; undefined: nobody dials it. */
  function dialTarget(service: Service, ends: Findings): DialTarget | undefined {
    const port = service.status?.bridgePort;
    if (!settings?.isDialed || port === undefined || service.metadata.deletionTimestamp || verdictOn(service))
      return undefined;
    const host = dialHost();
    const { type, resource, targetPort } = service.spec;
    const because = JSON.stringify([type, resource, targetPort, ...Object.values(ends).map((end) => end?.status)]);
    return host === undefined ? undefined : { host, port, because };
  }

  /** The address of the default router at which all its ports are. */
  function dialHost(): string | undefined {
    if (isRemote) {
      const [node] = lookups.systemNodes();
      return node && hostOf(node);
    }
    const hub = stores.routerHubs.get(namespace, ROUTER_HUB_OBJECT);
    return hub && isMadeRouter(deps, hub) ? routerPodHost(namespace) : hub?.spec.host;
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
      watching(stores.applications, (change) => (change.initial ? [] : keysOf(changedEntries(change)))),
      watching(stores.nodes, (change) => {
        if (change.initial || !isOtherNode(change)) return [];
        if (isRemote && isOtherSystemNode(change)) return allKeys();
        const all = [change.object, change.previous ?? change.object];
        const bridged = all.flatMap((node) => [...stores.services.byIndex('bridge', nodeUuid(node))].map(keyOf));
        return [...keysOf(all.flatMap(namesOfNode)), ...bridged, ...keysOf(placed(change.object))];
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

  /** Uuids and names of the microservices that a node has. */
  function placed(node: EdgeNode): string[] {
    return lookups
      .applicationsOn(node)
      .flatMap((application) =>
        (application.spec.microservices ?? []).flatMap((entry) => namesOfEntry(application, entry)),
      );
  }
}

const portsOf = ({ messagingPort, edgeRouterPort, interRouterPort }: RouterHubSettings): number[] => [
  messagingPort,
  edgeRouterPort,
  interRouterPort,
];

/** The finding of a former status, which stays while nothing newer is known. */
function findingIn({ status }: Service, type: 'Connected' | 'Listening' | 'Reachable'): Finding | undefined {
  const found = status?.conditions?.find((one) => one.type === type);
  return found && { status: found.status, reason: found.reason as Finding['reason'], message: found.message };
}

type Entry = NonNullable<Application['spec']['microservices']>[number];

const namesOfEntry = (application: Application, entry: Entry): string[] => [
  entryUuid(application, entry),
  `${v3Name(application)}/${entry.name}`,
];

/** Uuids and names of the microservices whose identity or node an edit of their application changed. */
function changedEntries({ object, previous, type }: Change<Application>): Set<string> {
  const now = type === 'delete' ? new Map<string, readonly string[]>() : placesOf(object);
  const before =
    type === 'delete' ? placesOf(object) : previous ? placesOf(previous) : new Map<string, readonly string[]>();
  const differ = [...new Set([...now.keys(), ...before.keys()])].filter((one) => now.has(one) !== before.has(one));
  return new Set(differ.flatMap((one) => now.get(one) ?? before.get(one) ?? []));
}

/** The names of entries, by all that decides where they are. */
function placesOf(application: Application): Map<string, readonly string[]> {
  return new Map(
    (application.spec.microservices ?? []).map((entry) => {
      const names = namesOfEntry(application, entry);
      const place = [names, entry.agent, recordedNode(application, entry), application.metadata.deletionTimestamp];
      return [JSON.stringify(place), names];
    }),
  );
}

/** Whether another node may be the default router outside of a cluster, or have another address. */
function isOtherSystemNode({ object, previous, type }: Change<EdgeNode>): boolean {
  const of = (node: EdgeNode | undefined) => (node?.spec.isSystem ? (hostOf(node) ?? '') : undefined);
  return type === 'delete' ? of(object) !== undefined : of(object) !== of(previous);
}

/** Whether what services ask of a node is another thing after a change. */
function isOtherNode(change: Change<EdgeNode>): boolean {
  const { object, previous, type } = change;
  if (type === 'delete' || !previous) return true;
  const of = ({ spec, metadata }: EdgeNode) => [
    spec.routerMode,
    spec.upstreamRouters,
    spec.host,
    spec.isSystem,
    metadata.deletionTimestamp,
    metadata.uid,
  ];
  const isSame =
    JSON.stringify([...of(object), ...namesOfNode(object)]) ===
    JSON.stringify([...of(previous), ...namesOfNode(previous)]);
  return !isSame && changesMoreThanStatus(change as never);
}
