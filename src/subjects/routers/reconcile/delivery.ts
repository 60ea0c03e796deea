import { hash } from 'node:crypto';
import { API_VERSION, FIELD_MANAGERS, ROUTER_HUB_CERTIFICATES } from '../../../api/names.ts';
import type { RouterHub } from '../../../api/v3/index.ts';
import { changesMoreThanStatus } from '../../../controllers/change-filter.ts';
import type { ControllerDependencies } from '../../../controllers/dependencies.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { routerHubClient } from '../../../datastore/relay-router.ts';
import {
  type Controller,
  createController,
  createOrUpdate,
  done,
  type Outcome,
  type Watch,
  watching,
} from '../../../kube/mod.ts';
import { sleep, systemClock } from '../../../lib/clock.ts';
import { managedEntities, type RouterEntity } from '../../../router-client/changes.ts';
import { connectRouter } from '../../../router-client/connection.ts';
import { RouterDelivery, type RouterState } from '../../../router-client/delivery.ts';
import { ROUTER_HUB_OBJECT, type RouterHubEnds } from '../../../rules/router-hub.ts';
import { ROUTER_FILES, ROUTER_SETS } from '../../../wire/router.ts';
import { RESOURCES } from '../../kinds.ts';
import { isMadeRouter, isRouterReachedAlike } from '../rules/hub.ts';
import { ROUTER_HUB_NAMES, routerHubPairs, routerHubTarget } from '../rules/hub-objects.ts';
import { mergePairs } from '../rules/merge.ts';
import { HubEnds } from './hub-ends.ts';
import { watchServices } from './services.ts';

/** The only key of this controller. */
const KEY = 'default-router';
/** The kubelet brings the files of a renewed certificate to the pod within two minutes; no router reads them by itself. */
const READ_AGAIN_MS = [15_000, 30_000, 60_000, 120_000] as const;
const CERTIFICATES = {
  [ROUTER_SETS.site]: ROUTER_HUB_CERTIFICATES.site,
  [ROUTER_SETS.local]: ROUTER_HUB_CERTIFICATES.local,
};

/** What the leader knows of the running default router. */
export interface RouterHubState {
  /** undefined: nothing is sent to it */
  readonly now: RouterState | undefined;
  /** services that it is to listen for */
  readonly listeners: number;
  subscribe(listener: () => void): Disposable;
}

/** Sends the running default router its services, for as long as this replica leads. */
export function createRouterHubDelivery(
  deps: ControllerDependencies,
  connect: typeof connectRouter = connectRouter,
): { controller: Controller; state: RouterHubState; ends: RouterHubEnds } {
  const { client, namespace, stores, platform, log, metrics, lookups, clock, listeningSince } = deps;
  const listeners = new Set<() => void>();
  let running: { target: string; delivery: RouterDelivery } | undefined;
  let state: RouterState | undefined;
  /** raised when a pod may have the files of a renewed certificate by now */
  let round = 0;
  let reading = new AbortController();

  const present = () => stores.routerHubs.get(namespace, ROUTER_HUB_OBJECT);
  const isThere = () => present() !== undefined && present()?.metadata.deletionTimestamp === undefined;
  const ends = new HubEnds({ isThere, clock, since: listeningSince });
  const textsOf = (name: string) => decodeData(stores.secrets.get(namespace, name)?.data);

  /** what the running comparison compares the router with */
  let compared: readonly RouterEntity[] = [];

  function wanted(): readonly RouterEntity[] | undefined {
    const hub = present();
    if (!hub) return undefined;
    const own = routerHubPairs(hub, namespace, lookups.services?.ofHub() ?? []);
    // Of a router of somebody else the services alone are ours.
    if (!isMadeRouter(deps, hub)) return managedEntities(own.filter(([entity]) => entity.startsWith('tcp')));
    const stored = stores.configMaps.get(namespace, ROUTER_HUB_NAMES.config)?.data?.[ROUTER_FILES.config];
    return managedEntities(mergePairs(stored, own).pairs);
  }

  function certificates(): ReadonlyMap<string, string> {
    const hub = present();
    if (!hub || !isMadeRouter(deps, hub)) return new Map();
    return new Map(
      Object.entries(CERTIFICATES).map(([profile, name]) => [
        profile,
        hash('sha256', JSON.stringify([round, textsOf(name)])),
      ]),
    );
  }

  function show(now: RouterState | undefined): void {
    state = now;
    if (!now?.router) ends.lost();
    for (const listener of listeners) listener();
  }

  async function dial(host: string, port: number, servername: string, signal: AbortSignal) {
    const tls = routerHubClient(stores, namespace);
    if (!tls) throw new Error(`the certificate ${ROUTER_HUB_CERTIFICATES.agent} is not made yet`);
    return connect({ host, port, servername, tls, name: FIELD_MANAGERS.controller, signal });
  }

  async function end(): Promise<void> {
    const ended = running;
    running = undefined;
    await ended?.delivery[Symbol.asyncDispose]();
    show(undefined);
  }

  /** An installation that makes its default router has one from the start. */
  async function makeHub(signal: AbortSignal): Promise<RouterHub | undefined> {
    if (!deps.routerHub || !platform.hasRouters) return undefined;
    const { object } = await createOrUpdate<RouterHub>(
      client,
      RESOURCES.routerHubs,
      { namespace, name: ROUTER_HUB_OBJECT },
      (found) =>
        found ?? {
          apiVersion: API_VERSION,
          kind: RESOURCES.routerHubs.kind,
          metadata: { name: ROUTER_HUB_OBJECT, namespace },
          spec: {},
        },
      { signal, call: { fieldManager: FIELD_MANAGERS.controller } },
    );
    return object;
  }

  async function reconcile(signal: AbortSignal): Promise<Outcome> {
    const hub = present() ?? (await makeHub(signal));
    const at = hub && platform.hasRouters && !hub.metadata.deletionTimestamp ? routerHubTarget(deps, hub) : undefined;
    const target = at && `${at.host} ${at.port}`;
    if (running && running.target !== target) await end();
    if (at && target !== undefined && !running)
      running = {
        target,
        delivery: new RouterDelivery({
          dial: (dialling) => dial(at.host, at.port, at.host, dialling),
          ...{ certificates, owned: 'bridges', report: show },
          wanted() {
            const entities = wanted();
            compared = entities ?? [];
            return entities;
          },
          compared: () => state && ends.compared(compared, state),
          clock: systemClock,
          random: Math.random,
          log,
        }),
      };
    else running?.delivery.changed();
    return done();
  }

  /** Has the router read its files again until the pod has the files of a certificate that was renewed now. */
  async function readAgain(): Promise<void> {
    reading.abort();
    reading = new AbortController();
    const { signal } = reading;
    let before = 0;
    for (const ms of READ_AGAIN_MS) {
      await sleep(ms - before, signal, systemClock);
      if (signal.aborted) return;
      before = ms;
      round++;
      running?.delivery.changed();
    }
  }

  const start: Watch = {
    whenSynced: async () => {},
    start(enqueue) {
      enqueue(KEY, true);
      return { [Symbol.dispose]: () => {} };
    },
  };
  const ofRouter: ReadonlySet<string> = new Set(Object.values(ROUTER_HUB_CERTIFICATES));
  const inner = createController({
    name: 'router-delivery',
    watches: [
      start,
      watchServices(deps, KEY),
      watching(stores.routerHubs, (change) => {
        const { object, previous } = change;
        const isSame =
          previous !== undefined && !changesMoreThanStatus(change) && isRouterReachedAlike(object, previous);
        return object.metadata.name === ROUTER_HUB_OBJECT && !isSame ? [KEY] : [];
      }),
      watching(stores.configMaps, ({ object }) => (object.metadata.name === ROUTER_HUB_NAMES.config ? [KEY] : [])),
      watching(stores.secrets, ({ object: { metadata }, initial }) => {
        if (!ofRouter.has(metadata.name)) return [];
        if (!initial && running && metadata.name !== ROUTER_HUB_CERTIFICATES.agent) void readAgain();
        return [KEY];
      }),
    ],
    reconcile: (_key, { signal }) => reconcile(signal),
    log,
    metrics,
  });
  const controller: Controller = {
    name: inner.name,
    enqueue: (key, options) => inner.enqueue(key, options),
    async run(signal) {
      try {
        await inner.run(signal);
      } finally {
        reading.abort();
        await end();
      }
    },
    whenIdle: () => inner.whenIdle(),
    get overdue() {
      return inner.overdue;
    },
    [Symbol.asyncDispose]: () => inner[Symbol.asyncDispose](),
  };
  return {
    controller,
    ends,
    state: {
      get now() {
        return state;
      },
      get listeners() {
        return wanted()?.filter(({ kind }) => kind === 'tcpListener').length ?? 0;
      },
      subscribe(listener) {
        listeners.add(listener);
        return { [Symbol.dispose]: () => void listeners.delete(listener) };
      },
    },
  };
}
