import type { EdgeNode } from '../../../api/v3/index.ts';
import type { Service } from '../../../api/v3/service.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { createWritePacer } from '../../../controllers/write-pacer.ts';
import { type Change, keyFor } from '../../../kube/mod.ts';
import type { Finding } from '../../../rules/conditions.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { v3Name } from '../../../rules/names.ts';
import { ROUTER_HUB_OBJECT } from '../../../rules/router-hub.ts';
import type { ServiceSettings } from '../../../rules/service-settings.ts';
import { routerModeOf } from '../../nodes/rules/modes.ts';
import { serviceTagKey } from '../../nodes/rules/service-tags.ts';
import { ALL_SERVICES, eligibleTags, serviceTokens } from '../../routers/rules/tags.ts';
import { backendOf } from '../rules/backend.ts';
import { connectedOf, type EndState, hubLacks, listeningOf, type RouterEnd } from '../rules/links.ts';
import { bridgeOf } from '../rules/verdict.ts';
import { Looks } from './looks.ts';
import { RouterObservations } from './router-observations.ts';

/** A router that starts again is back within this time, ms. */
const GRACE_MS = 30_000;
/** Least time between two statuses of one service that routers cause, ms. */
const MERGE_MS = 5_000;
/** Statuses that routers cause, of all services. */
const STATUSES_PER_SECOND = 10;
/** Routers that are looked at again at a time. */
const LOOKS = 8;

/** The state of the ends of one service at running routers; an absent member is not known, and a former value stays. */
export interface ServiceLink {
  /** why the default router lacks its ends */
  hubLacks?: string | undefined;
  connected?: Finding | undefined;
  listening?: Finding | undefined;
  listeners?: { up: number; of: number };
}

type Dependencies = Pick<
  ControllerDependencies,
  'stores' | 'lookups' | 'namespace' | 'clock' | 'observations' | 'desired' | 'hubEnds' | 'controlPlane'
>;
type Enqueue = (key: string, afterMs: number) => void;

const ends = {
  listener: (name: string) => `${name}-listener`,
  connector: (name: string) => `${name}-connector`,
} as const;
const serviceOfEnd = (end: string) => end.replace(/-(listener|connector)$/, '');

/** What running routers have of services. A change leads to the services alone that it concerns. */
export class ServiceLinks {
  readonly #deps: Dependencies;
  readonly #settings: ServiceSettings;
  /** whether nodes without a `routerMode` have a router */
  readonly #facts: { readonly hasDefaultRouter: boolean };
  readonly #routers: RouterObservations;
  readonly #pacer;
  readonly #countedAt = new Map<string, number>();
  /** uuids of the nodes with the backends, by service, as they were counted last */
  readonly #owners = new Map<string, string>();
  readonly #looks = new Looks();

  constructor(deps: Dependencies, settings: ServiceSettings, facts: { readonly hasDefaultRouter: boolean }) {
    this.#deps = deps;
    this.#settings = settings;
    this.#facts = facts;
    this.#routers = new RouterObservations(deps);
    this.#pacer = createWritePacer(STATUSES_PER_SECOND, deps.clock);
  }

  /** The state of the ends of a service that has a port. */
  of(service: Service): ServiceLink {
    const { name } = service.metadata;
    this.#noteCount(service);
    const nodes = this.#listening(service);
    const owner = this.#ownerOf(service);
    this.#lookAgain(service, nodes, owner);
    const hub = this.#hub(service);
    const all = [...hub.slice(0, 1), ...[...nodes.values()].map((node) => this.#listener(name, node, hub[0]?.state))];
    const listening = listeningOf(all);
    const isOfHub = service.spec.type === 'cluster' || service.spec.type === 'external';
    const [, connector] = hub;
    const connected = isOfHub ? connector : owner && this.#end(ends.connector(name), owner);
    const wasReady = service.status?.provisioningStatus === 'ready';
    return {
      hubLacks: hubLacks(hub, wasReady),
      connected: connected && connectedOf(connected),
      ...(listening && { listening: listening.finding, listeners: listening.listeners }),
    };
  }

  /** Unix ms at which routers may be known otherwise, though nothing is reported. */
  nextAt({ metadata: { name } }: Service): number | undefined {
    const { clock, hubEnds } = this.#deps;
    const lostAt = hubEnds?.isThere ? hubEnds.unreachedSince : undefined;
    const graceEnd = lostAt === undefined ? 0 : lostAt + GRACE_MS;
    const lacks = Object.values(ends).reduce((sum, end) => sum + this.#routers.lacking(end(name)).size, 0);
    const due = [graceEnd > clock() ? graceEnd : undefined, this.#looks.nextAt(name, lacks, clock())].flatMap(
      (at) => at ?? [],
    );
    return due.length > 0 ? Math.min(...due) : undefined;
  }

  forget({ metadata: { name } }: Service): void {
    for (const end of Object.values(ends)) this.#routers.forgetEnd(end(name));
    this.#countedAt.delete(name);
    this.#owners.delete(name);
    this.#looks.forget(name);
    this.#pacer.release(name);
  }

  /** Leads to services whose ends are others now. */
  watch(enqueue: Enqueue): Disposable {
    const { observations, stores, hubEnds } = this.#deps;
    const watches = new DisposableStack();
    const touch = (names: Iterable<string>, afterMs?: number) => {
      for (const name of names) this.touch(name, enqueue, afterMs);
    };
    watches.use(observations.subscribe((uuid, now, before) => touch(this.#reported(uuid, now, before))));
    watches.use(stores.nodes.subscribe((change) => touch(this.#nodeChanged(change))));
    watches.use(stores.services.subscribe((change) => this.#serviceChanged(change)));
    if (hubEnds)
      watches.use(
        hubEnds.subscribe((names) => {
          if (names.length > 0) touch(new Set(names.map(serviceOfEnd)));
          else touch(this.#names('all', 'true'), hubEnds.unreachedSince === undefined ? undefined : GRACE_MS);
        }),
      );
    return watches;
  }

  #noteCount({ metadata: { name } }: Service): void {
    this.#pacer.release(name);
    this.#countedAt.set(name, this.#deps.clock());
  }

  /** A service that is on its way is looked at at once; the status of a service that works is written in its turn. */
  touch(name: string, enqueue: Enqueue, afterMs = 0): void {
    const { namespace, stores, clock } = this.#deps;
    const service = stores.services.get(namespace, name);
    if (!service) return;
    const merged = (this.#countedAt.get(name) ?? 0) + MERGE_MS - clock();
    const turn = service.status?.provisioningStatus === 'ready' ? Math.max(merged, this.#pacer.take(name), 0) : 0;
    enqueue(keyFor(namespace, name), Math.max(afterMs, turn));
  }

  #hasRouter = (node: EdgeNode): boolean =>
    node.metadata.deletionTimestamp === undefined && routerModeOf(node, this.#facts) !== 'none';

  /** The node whose router is the default router outside of a cluster. */
  #hubNode(): EdgeNode | undefined {
    return this.#deps.controlPlane === 'remote' ? this.#deps.lookups.systemNodes()[0] : undefined;
  }

  /** The nodes whose routers are to listen besides the default router, by uuid. */
  #listening(service: Pick<Service, 'spec'>): ReadonlyMap<string, EdgeNode> {
    const { stores } = this.#deps;
    const prefix = this.#settings.tagPrefix;
    const bridge = bridgeOf(service);
    const tokens = [ALL_SERVICES, ...eligibleTags({ tags: service.spec.tags ?? [] })];
    const nodes = [
      ...tokens.flatMap((token) => stores.nodes.byIndex('serviceTag', serviceTagKey({ prefix, token }))),
      ...(bridge === undefined ? [] : stores.nodes.byIndex('uuid', bridge)),
    ].filter(this.#hasRouter);
    const byUuid = new Map(nodes.map((node) => [nodeUuid(node), node]));
    const hub = this.#hubNode();
    if (hub) byUuid.delete(nodeUuid(hub));
    return byUuid;
  }

  /** The node whose router reaches the backend. */
  #ownerOf(service: Service): EdgeNode | undefined {
    const node = backendOf(service, this.#deps.lookups)?.node;
    return node && this.#hasRouter(node) ? node : undefined;
  }

  /** The ends of a service at the default router, the listener first; none without a default router. */
  #hub({ metadata: { name }, spec, status }: Service): RouterEnd[] {
    const isOfHub = spec.type === 'cluster' || spec.type === 'external';
    const node = this.#hubNode();
    const wanted = [
      { name: ends.listener(name), port: String(status?.bridgePort) },
      ...(isOfHub ? [{ name: ends.connector(name), port: String(spec.targetPort), host: spec.resource }] : []),
    ];
    if (node) return wanted.map((end) => this.#end(end.name, node));
    if (!this.#deps.hubEnds?.isThere) return [];
    return wanted.map((end) => ({ router: ROUTER_HUB_OBJECT, state: this.#hubState(end) }));
  }

  #hubState({ name, port, host }: { name: string; port: string; host?: string }): EndState {
    const { hubEnds, clock } = this.#deps;
    const lostAt = hubEnds?.unreachedSince;
    const isLost = lostAt !== undefined;
    if (isLost && clock() - lostAt >= GRACE_MS) return { is: 'unreached' };
    const end = hubEnds?.of(name);
    if (!end || end.port !== port || end.host !== host) return { is: isLost ? 'unknown' : 'behind' };
    const { problem } = end;
    if (!problem) return { is: 'up' };
    return problem.is === 'waiting' ? { is: 'waiting' } : { is: problem.is, message: problem.message ?? 'no reason' };
  }

  /** Where a report names not all listeners that are down, those that fail are first, and others wait as they do at the default router. */
  #listener(name: string, node: EdgeNode, atHub: EndState | undefined): RouterEnd {
    const end = this.#end(ends.listener(name), node);
    const isLeftOut = end.state.is === 'up' && atHub?.is === 'waiting' && this.#routers.isCut(node);
    return isLeftOut ? { ...end, state: { is: 'waiting' } } : end;
  }

  #end(end: string, node: EdgeNode): RouterEnd {
    return { router: v3Name(node), state: this.#routers.stateOf(end, node) };
  }

  /** Asks the routers that were asked for an end again whether they have it: what they report may be as it was before they were asked. */
  #lookAgain(service: Service, nodes: ReadonlyMap<string, EdgeNode>, owner: EdgeNode | undefined): void {
    const { name } = service.metadata;
    const before = this.#owners.get(name);
    if (owner) this.#owners.set(name, nodeUuid(owner));
    else this.#owners.delete(name);
    const connector = ends.connector(name);
    if (owner && before !== undefined && before !== nodeUuid(owner)) this.#routers.ask(connector, [nodeUuid(owner)]);
    this.#routers.askOnly(connector, (uuid) => owner !== undefined && uuid === nodeUuid(owner));
    this.#routers.askOnly(ends.listener(name), (uuid) => nodes.has(uuid) || this.#isHub(uuid));
    if (owner) this.#routers.confirm(owner);
    for (const uuid of [...this.#routers.lacking(ends.listener(name))].slice(0, LOOKS)) {
      const node = nodes.get(uuid);
      if (node) this.#routers.confirm(node);
    }
  }

  #isHub(uuid: string): boolean {
    const hub = this.#hubNode();
    return hub !== undefined && nodeUuid(hub) === uuid;
  }

  /** The services that a report concerns: of the names in it those alone that the node is to have. */
  #reported(uuid: string, now: Observation, before: Observation | undefined): Iterable<string> {
    const [is, was] = [now.report, before?.report];
    const isFirst = before?.reportedAt === undefined && now.reportedAt !== undefined;
    if (!isFirst && is.router === was?.router && is.systemFiles === was?.systemFiles) return [];
    return this.#deps.stores.nodes.byIndex('uuid', uuid).flatMap((node) => {
      if (!this.#hasRouter(node)) return [];
      const { ends: others, isAll } = this.#routers.observe(node, is.router, was?.router);
      if (isFirst || isAll) return [...this.#servicesOf(node)];
      return [...new Set([...others].map(serviceOfEnd))].filter((name) => this.#has(node, name));
    });
  }

  #has(node: EdgeNode, name: string): boolean {
    const { stores, namespace } = this.#deps;
    const service = stores.services.get(namespace, name);
    if (!service) return false;
    const uuid = nodeUuid(node);
    return this.#owners.get(name) === uuid || this.#isHub(uuid) || this.#listening(service).has(uuid);
  }

  /** Names of the services for which a router of a node is to listen. */
  #selectedBy(node: EdgeNode): Set<string> {
    if (!this.#hasRouter(node)) return new Set();
    const uuid = nodeUuid(node);
    const tokens = serviceTokens(node.spec.tags ?? [], this.#settings.tagPrefix);
    if (tokens.has(ALL_SERVICES) || this.#isHub(uuid)) return new Set(this.#names('all', 'true'));
    return new Set([...[...tokens].flatMap((token) => this.#names('tag', token)), ...this.#names('bridge', uuid)]);
  }

  #servicesOf(node: EdgeNode): Set<string> {
    const uuid = nodeUuid(node);
    const owned = [...this.#owners].flatMap(([name, owner]) => (owner === uuid ? [name] : []));
    return new Set([...this.#selectedBy(node), ...owned]);
  }

  #names(index: 'all' | 'tag' | 'bridge', key: string): string[] {
    return this.#deps.stores.services.byIndex(index, key).map(({ metadata }) => metadata.name);
  }

  #nodeChanged({ object, previous, type, initial }: Change<EdgeNode>): Iterable<string> {
    if (initial || (previous && type !== 'delete' && factsOf(previous) === factsOf(object))) return [];
    const uuid = nodeUuid(object);
    if (type === 'delete') {
      this.#routers.forgetNode(uuid);
      return this.#servicesOf(object);
    }
    const now = this.#selectedBy(object);
    const before = previous ? this.#selectedBy(previous) : new Set<string>();
    const added = minus(now, before);
    for (const name of added) this.#routers.ask(ends.listener(name), [uuid]);
    if (!previous || stateOf(previous) !== stateOf(object))
      return new Set([...now, ...before, ...this.#servicesOf(object)]);
    return [...added, ...minus(before, now)];
  }

  #serviceChanged({ object, previous, type, initial }: Change<Service>): void {
    if (type === 'delete') {
      this.forget(object);
      return;
    }
    const port = object.status?.bridgePort;
    if (initial || port === undefined) return;
    const { name } = object.metadata;
    const isSamePort = previous?.status?.bridgePort === port;
    const [is, was] = [object, previous].map((one) => one && JSON.stringify([one.spec.tags, one.spec.defaultBridge]));
    if (!isSamePort || is !== was) {
      const before = isSamePort && previous ? this.#listening(previous) : new Map<string, EdgeNode>();
      const hub = isSamePort ? undefined : this.#hubNode();
      const asked = [...this.#listening(object).keys()].filter((uuid) => !before.has(uuid));
      this.#routers.ask(ends.listener(name), [...asked, ...(hub ? [nodeUuid(hub)] : [])]);
    }
    if (isSamePort && previous && backendFacts(previous) === backendFacts(object)) return;
    const isOfHub = object.spec.type === 'cluster' || object.spec.type === 'external';
    const owner = isOfHub ? this.#hubNode() : this.#ownerOf(object);
    if (owner) this.#routers.ask(ends.connector(name), [nodeUuid(owner)]);
  }
}

const minus = (one: ReadonlySet<string>, other: ReadonlySet<string>) => [...one].filter((name) => !other.has(name));

const backendFacts = ({ spec: { type, resource, targetPort } }: Service) =>
  JSON.stringify([type, resource, targetPort]);

/** Whether the agent of a node is silent, or does not exist; and the modes of the node. */
function stateOf({ spec, status, metadata }: EdgeNode): string {
  const daemon = status?.daemonStatus ?? 'NOT_PROVISIONED';
  const state = ['UNKNOWN', 'NOT_PROVISIONED', 'DEPROVISIONED'].includes(daemon) ? daemon : 'LIVE';
  return JSON.stringify([state, spec.routerMode, spec.isSystem, metadata.deletionTimestamp]);
}

const factsOf = (node: EdgeNode): string => JSON.stringify([stateOf(node), node.spec.tags]);
