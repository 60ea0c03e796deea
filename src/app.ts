import type { IncomingMessage } from 'node:http';
import type { Logger } from 'pino';
import packageJson from '../package.json' with { type: 'json' };
import { type Agents, createAgents } from './agents/agents.ts';
import { nodeKeyName, readNodeKey } from './agents/channel/node-key.ts';
import type { EventReason } from './api/conditions.ts';
import { GROUP } from './api/names.ts';
import { createRest } from './assembly/rest.ts';
import type { Config } from './config.ts';
import { connect, internalAddress } from './connection.ts';
import { createAuditLog } from './datastore/audit-log.ts';
import { createSegments } from './datastore/audit-segments.ts';
import { createEpochs } from './datastore/epochs.ts';
import { createIds } from './datastore/ids.ts';
import { createLookups } from './datastore/lookups.ts';
import { createProvisioningKeys } from './datastore/provisioning-keys.ts';
import { createRelayHub } from './datastore/relay-hub.ts';
import { createRelayRouter } from './datastore/relay-router.ts';
import { reportRestores } from './datastore/restored-event.ts';
import { readRevisionKey } from './datastore/revision-key.ts';
import {
  byKey,
  countObjects,
  createIdLookup,
  createStores,
  type EssentialStores,
  essentialStores,
  followStores,
  type Stores,
} from './datastore/stores.ts';
import { createSystemNumbers } from './datastore/system-names.ts';
import { createTally } from './datastore/tally.ts';
import { type StoredUsage, trackUsage } from './datastore/usage.ts';
import { admitConnections } from './http/admit-connections.ts';
import { addressOf } from './http/client-address.ts';
import { sweepLogins } from './identity/sweep.ts';
import { createInstall, type InstallOptions } from './install/install.ts';
import { createLatestRelease } from './install/packages.ts';
import {
  createEventRecorder,
  createLeadership,
  createServiceAccount,
  type EventRecorder,
  type KubeClient,
  type Leadership,
  NoServiceAccountError,
  type OwnServiceAccount,
} from './kube/mod.ts';
import { addLeaderWork, type LeaderWorkOptions } from './leader.ts';
import { systemClock } from './lib/clock.ts';
import type { Log } from './lib/log.ts';
import { openPeople } from './people.ts';
import { createReplicas, type Heartbeat, replicaUuid, startHeartbeat } from './replicas/replicas.ts';
import {
  type ClusterDependenciesOptions,
  createClusterDependencies,
  createReadinessCheck,
} from './rest/adapters/dependencies.ts';
import { flushOnChange } from './rest/adapters/flush.ts';
import type { RestDependencies } from './rest/contract/dependencies.ts';
import { tooOften } from './rest/contract/errors.ts';
import { DEFAULT_LIMITS } from './rest/contract/limits.ts';
import { createWriteBudgets } from './rest/objects/budgets.ts';
import { presentNodes } from './rest/objects/present.ts';
import { limitAttempts, type TakeAttempt } from './rest/server/rates.ts';
import type { RestServer } from './rest/server/server.ts';
import { type Budgets, budgetsOf, QUANTITIES } from './rules/budget.ts';
import { nodeUuid } from './rules/identity.ts';
import type { PlatformPart } from './rules/part.ts';
import type { RouterHubEnds } from './rules/router-hub.ts';
import { createTlsFiles } from './server-tls/files.ts';
import { createOwnCertificate } from './server-tls/own-certificate.ts';
import type { TlsSource } from './server-tls/source.ts';
import { createConfiguredRelay, type RelayHub, type RelayRouter } from './sessions/configured-relay.ts';
import { createPlaces, type Places } from './sessions/places.ts';
import { createRelay } from './sessions/relay.ts';
import { createSessions } from './sessions/sessions.ts';
import { createSharedPlaces } from './sessions/shared-places.ts';
import { createUpgrades, type UpgradesOptions } from './sessions/upgrades.ts';
import { busFigures } from './subjects/bus-accounts/rules/metrics.ts';
import { KINDS, type Kinds } from './subjects/kinds.ts';
import { fleetFigures } from './subjects/nodes/rules/fleet.ts';
import { certificateFigures } from './subjects/pki/rules/metrics.ts';
import { PARTS } from './subjects/platform/rules/parts.ts';
import {
  defaultRouter,
  serviceListeners as listenersOfService,
  routerOfNode,
  serviceByReady,
} from './subjects/services/rules/metrics.ts';
import { createMetrics } from './telemetry/metrics.ts';
import { createOpsServer } from './telemetry/ops-server.ts';
import { type ProcessEvents, watchUnhandled } from './telemetry/unhandled.ts';
import { createRenderer } from './templates/renderer.ts';
import { releaseKeys } from './wire/release-signature.ts';

/** A controller process: REST, agent routes, and the reconcilers while it leads. */
export interface App extends AsyncDisposable {
  /** Starts the listeners and takes part in the election. */
  start(): Promise<void>;
  readonly addresses: { rest?: number; metrics?: number; internal?: number };
  readonly isLeading: boolean;
  /** what nodes reported, and their desired states */
  readonly agents: Agents;
  /** Refuses new requests, ends long polls, and waits for requests that are being handled no longer than `graceMs`. */
  drain(graceMs: number): Promise<void>;
}

interface AppOptions {
  log: Logger;
  kinds?: Kinds;
  /** the process whose unhandled failures are logged and counted; absent where others run in it as well */
  process?: ProcessEvents;
}

type Metrics = ReturnType<typeof createMetrics>;

/** Parts by which a process reaches its surroundings, for tests: in production the configuration determines them. */
export interface AppOverrides extends Pick<ClusterDependenciesOptions, 'authenticator' | 'authorizer'> {
  client?: KubeClient;
  leadership?: Leadership;
  stores?: Stores;
  /** parts of the platform of nodes, instead of the product's */
  parts?: readonly PlatformPart[] | undefined;
  /** exec sessions, as the reconcilers know them */
  sessions?: LeaderWorkOptions['sessions'];
  /** what the running default router has of services */
  hubEnds?: RouterHubEnds | undefined;
  /** interior routers that the network has room for, instead of as many as routers know */
  mostInterior?: number | undefined;
  events?: EventRecorder<EventReason>;
  metrics?: Metrics;
  /** Unix ms, for the reconcilers and the liveness of nodes */
  now?: () => number;
}

/** The Lease of the leader. */
const LEASE = 'skerry-controller';

/**
 * The composition root: creates the parts of the process in the order in which they need each other.
 */
export async function createApp(
  config: Config,
  { log: logger, kinds = KINDS, process }: AppOptions,
  overrides: AppOverrides = {},
): Promise<App> {
  await using building = new AsyncDisposableStack();
  const stop = new AbortController();
  building.defer(() => stop.abort());
  const log = logger as unknown as Log;
  const { metrics = createMetrics({ version: packageJson.version }), now = Date.now } = overrides;
  if (process) watchUnhandled(process, { log: logger, metrics });
  const { namespace, identity } = config;

  const client = building.use(overrides.client ?? connect(config, metrics));
  const leadership =
    overrides.leadership ??
    createLeadership({
      client,
      namespace,
      name: LEASE,
      identity,
      dataAnnotation: `${GROUP}/leader`,
      log,
      metrics,
    });
  const stores = overrides.stores ?? createStores({ namespace, kinds, log });
  const essential = essentialStores(stores, config);
  const usage = building.use(trackUsage(byKey(stores)));
  const budgets = budgetsOf(config.budgets);
  const reflectors = followStores(stores, { client, log, metrics }, stop.signal);
  const revisionKey = await readRevisionKey({ client, namespace, log }, stop.signal);
  const lookups = createLookups(stores, {
    revisionKey,
    ...(config.tunnel && { tunnel: { settings: config.tunnel, namespace } }),
    ...(config.isBusEnabled && { bus: { namespace } }),
    ...(config.hasRouters && {
      routers: { namespace, tagPrefix: config.services.tagPrefix, mostInterior: overrides.mostInterior },
    }),
  });
  const ids = createIds({
    client,
    namespace,
    withId: createIdLookup(stores, kinds),
    isNamed: createSystemNumbers(stores, kinds),
    log,
  });
  const epochs = createEpochs({ client, namespace, stores: essential, log });
  /** Discards what was read and counted from the former datastore. */
  const startOver = () => {
    for (const reflector of reflectors) reflector.restart();
    ids.reset();
  };
  epochs.onRestored(startOver);
  epochs.onRestored(() => void logins?.restored(stop.signal));
  // Each use has its own limits, so that none takes the events of another one.
  const recorderOf = (client: KubeClient) =>
    overrides.events ??
    createEventRecorder<EventReason>({ client, controller: `${GROUP}/controller`, instance: identity, log, metrics });
  const openRecorder = () => building.use(recorderOf(client));
  reportRestores(epochs, openRecorder(), leadership.lease);
  leadership.onWentBack(() => {
    startOver();
    epochs.invalidate();
    // Also when nodes were sent nothing since the backup: somebody may have logged out.
    void logins?.restored(stop.signal);
  });

  const tls = openTls(config, { client, stores, log }, stop.signal);
  if (tls) building.use(tls);
  /** Base64 PEM of the authorities that agents are to trust; empty without any. */
  const caCert = () => Buffer.from(tls?.current?.authorities ?? '').toString('base64');
  const provisioned = (uuid: string) => {
    const secret = stores.secrets.get(namespace, nodeKeyName(uuid));
    return secret && readNodeKey(secret);
  };
  const segments = createSegments({ client, namespace });
  const audit = config.audit.isEnabled ? building.use(createAuditLog({ segments, log, metrics })) : undefined;
  const auditing = audit && { audit: { record: audit.record, recordsAddresses: config.audit.recordsAddresses } };
  let heartbeat: Heartbeat | undefined;
  const replicas = () => heartbeat?.active ?? REPLICAS;
  const clientAddress = (request: IncomingMessage) => addressOf(request, config.server.trustProxy);
  const addresses: App['addresses'] = {};
  const attempt = limitAttempts(config.auth.attempts);
  const people = building.use(
    await openPeople(config, {
      ...{ client, stores, lease: LEASE, audit, replicas, attempt, log, metrics, now },
      addressOf: clientAddress,
      port: () => addresses.rest,
    }),
  );
  const { logins } = people;
  if (logins)
    leadership.whileLeading(({ client, signal }) =>
      sweepLogins({ client, namespace, clock: systemClock, log }, signal),
    );
  const { credentials, isAlone } = await createCredentials(client, log, stop.signal);
  const sharedPlaces = isAlone
    ? undefined
    : createSharedPlaces({
        ...{ leadership, replicas: runningReplicas(config, client), clock: systemClock, log },
        mostOfUser: config.ofUser.sessions,
      });
  const places = sharedPlaces ?? createPlaces(config.ofUser.sessions);
  const platform = {
    parts: overrides.parts ?? PARTS,
    isBusEnabled: config.isBusEnabled,
    hasRouters: config.hasRouters,
    serviceTag: config.services.tagPrefix,
    mostInterior: overrides.mostInterior,
    isRemote: config.controlPlane === 'remote',
  };
  const agents = building.use(
    createAgents({
      client,
      namespace,
      revisionKey,
      stores,
      versionKeys: createProvisioningKeys({ client, namespace, secrets: stores.secrets }),
      leadership,
      credentials,
      sessions: places,
      ...(sharedPlaces && { internalHandlers: sharedPlaces.handlers }),
      epochs,
      listAgain: (store) => reflectors.find((reflector) => reflector.store === store)?.listAgain(),
      // The agents of a replica that has just stopped come to this one within the second in which it is ready.
      ...(process && { startedAt: performance.timeOrigin }),
      ...(config.publicUrl && { publicUrl: config.publicUrl }),
      ...(config.releasesUrl && { releasesUrl: config.releasesUrl }),
      ...(config.tunnel && { tunnel: config.tunnel }),
      addressOf: clientAddress,
      authenticated: (request, caller) => rest.authenticated(request, caller),
      ...auditing,
      caCert,
      ...(tls && { caCertChanges: (listener) => tls.subscribe(listener) }),
      controlPlane: config.controlPlane,
      platform,
      identity,
      log,
      metrics,
    }),
  );
  const templates = building.use(
    createRenderer({ refuse: () => tooOften('too many documents of this caller are being rendered', 1) }),
  );
  addLeaderWork({
    leadership,
    epochs,
    recorderOf,
    namespace,
    stores,
    kinds,
    lookups,
    observations: agents.observations,
    platform,
    desired: (node) => agents.routes.desired(nodeUuid(node)),
    provisioned,
    ...(config.auth.mode === 'embedded' && {
      people: { prefix: config.auth.groupsPrefix, ...(logins && { logins: logins.facts }) },
    }),
    ids,
    installation: config.installation.name,
    controlPlane: config.controlPlane,
    ...(config.hub && { hub: config.hub }),
    ...(config.routerHub && { routerHub: config.routerHub }),
    services: config.services,
    ...(overrides.hubEnds && { hubEnds: overrides.hubEnds }),
    systemImages: config.systemImages,
    sessions: overrides.sessions ?? places,
    templates,
    usage,
    budgets,
    log,
    metrics,
    clock: now,
  });
  measureFleet(metrics, { leadership, stores, kinds, agents, usage, budgets, now });

  metrics.loginsFrom(() => {
    const { signingKeySeconds, sessions, interactions } = logins?.figures() ?? {};
    const isUp = people.isProviderUp();
    return {
      ...(leadership.isLeading && sessions !== undefined && { sessions, interactions }),
      ...(signingKeySeconds !== undefined && { signingKeySeconds }),
      ...(isUp !== undefined && { providerUp: isUp ? 1 : 0 }),
    };
  });
  const deps = createClusterDependencies({
    client,
    namespace,
    stores,
    kinds,
    lookups,
    ids,
    provisioning: provisioned,
    sentConfig(node, microservice) {
      const { microservices = [], held } = agents.routes.desired(node) ?? {};
      const sent = microservices.find(({ uuid }) => uuid === microservice);
      return sent && 'config' in sent ? sent.config : held?.get(microservice)?.config;
    },
    budgets: createWriteBudgets({ usage, budgets, metrics }),
    templates,
    observations: { of: agents.currentValues.of, listeningSince: () => leadership.since },
    ...(audit && { audit }),
    self: {
      version: packageJson.version,
      caCert,
      releasesUrl: config.releasesUrl,
      controlPlane: config.controlPlane,
      isBusEnabled: config.isBusEnabled,
      hasRouters: config.hasRouters,
    },
    groupsPrefix: config.auth.groupsPrefix,
    tokenAudience: config.tokenAudience ?? '',
    identity: people.door,
    issuers: people,
    authenticator: overrides.authenticator,
    authorizer: overrides.authorizer,
    clock: now,
    metrics: { access: metrics.access },
  });
  building.use(flushOnChange(stores, deps.authorizer));
  const rest = building.use(openRest(config, { deps, tls, attempt, log, metrics }));
  if (tls) building.use(tls.subscribe((credentials) => rest.serveCertificate(credentials)));
  if (people.crossOrigin) rest.mountFirst(people.crossOrigin);
  rest.mountFirst((request, response) => agents.routes.handle(request, response));
  for (const handler of people.handlers) rest.mountFirst(handler);
  rest.mountFirst(
    createInstall({
      ...placeOf(config),
      ...(config.releasesKey && { keys: releaseKeys(config.releasesKey) }),
      ...(config.publicUrl && { publicUrl: config.publicUrl }),
      addressOf: clientAddress,
      nodeOf: async (request) => (await agents.routes.authenticate(request)).uuid,
      now: () => performance.now(),
      log,
    }),
  );
  const sockets = building.use(
    openSockets({
      hub: config.isBusEnabled ? createRelayHub(stores, config) : undefined,
      defaultRouter: createRelayRouter(stores, config),
      ...{ config, places, agents, rest, credentials, lookups, addressOf: clientAddress, metrics, log },
      present: async (node, signal) => (await presentNodes(deps, [node], signal))(node),
      mostSockets: config.mostSockets,
      mostOfUser: config.ofUser.sockets,
      isAlone: () => sharedPlaces?.isAlone ?? true,
      ...{ ...auditing, events: openRecorder() },
    }),
  );
  const ops = building.use(createOps({ client, stores: essential, tls, metrics }));

  const running = building.move();
  return {
    addresses,
    agents,
    get isLeading() {
      return leadership.isLeading;
    },
    async start() {
      const { host, port } = config.server;
      const internal = (await agents.internalServer.listen({ port: config.internal.port, host })).port;
      addresses.internal = internal;
      addresses.metrics = (await ops.listen({ port: config.metricsPort, host })).port;
      const address = internalAddress(config, internal);
      leadership.join(address);
      heartbeat = running.use(
        startHeartbeat({
          ...{ client, namespace, identity, host: hostOf(address), log, ...versionsOf(config) },
          login: people.report,
        }),
      );
      running.use(leadership);
      void agents.run(stop.signal);
      void logins?.run(stop.signal);
      void sharedPlaces?.run({ call: agents.leader.call, address }, stop.signal);
      addresses.rest = (await rest.listen({ port, host })).port;
    },
    async drain(graceMs) {
      // Its clients need the time to connect to another replica.
      sockets.drain();
      await agents.routes.drain(Math.min(graceMs, 5_000));
      await rest.drain(graceMs);
      await audit?.flush();
    },
    [Symbol.asyncDispose]() {
      stop.abort();
      return running.disposeAsync();
    },
  };
}

/** Replicas that an installation counts as having until this one has looked: bounds of the installation are shared among them. */
const REPLICAS = 2;

/** By their Leases: these are few, and only a new leader asks. */
function runningReplicas({ namespace, identity }: Config, client: KubeClient) {
  const replicas = createReplicas({ client, namespace });
  return {
    self: replicaUuid(namespace, identity),
    active: async (signal: AbortSignal) =>
      (await replicas.list(signal)).flatMap(({ isActive, uuid }) => (isActive ? [uuid] : [])),
  };
}

interface SocketsOptions
  extends Pick<
    UpgradesOptions,
    'mostSockets' | 'mostOfUser' | 'lookups' | 'present' | 'addressOf' | 'audit' | 'events'
  > {
  config: Pick<Config, 'relay' | 'identity'>;
  /** over which sessions pass by themselves; absent while the bus is off */
  hub: RelayHub | undefined;
  defaultRouter: RelayRouter;
  places: Places;
  isAlone(): boolean;
  agents: Agents;
  rest: RestServer;
  credentials: OwnServiceAccount;
  metrics: Metrics;
  log: Log;
}

/** Exec and log sessions: sockets of users and agents at the public listener, and sockets of other replicas at the internal one. */
function openSockets({
  config,
  places,
  hub,
  defaultRouter,
  isAlone,
  agents,
  rest,
  credentials,
  metrics,
  log,
  ...given
}: SocketsOptions) {
  const sessions = createSessions({ places, metrics, clock: systemClock, log });
  const internal = createRelay({
    sessions,
    token: credentials.token,
    authenticate: agents.internalServer.authenticate,
    clock: systemClock,
    log,
  });
  agents.internalServer.http.on('upgrade', internal.handle);
  const { relay: settings, identity } = config;
  const relay = createConfiguredRelay({
    ...{ settings, identity, internal, sessions, defaultRouter, isAlone, clock: systemClock, log },
    ...(hub && { hub }),
  });
  const upgrades = createUpgrades({
    ...given,
    ...{ sessions, places, relay },
    admitUser: rest.admitSocket,
    admitAgent: agents.routes.authenticate,
    metrics,
    clock: systemClock,
    log,
  });
  rest.http.on('upgrade', upgrades.handle);
  return {
    drain: upgrades.drain,
    [Symbol.dispose]() {
      upgrades[Symbol.dispose]();
      relay[Symbol.dispose]();
      internal[Symbol.dispose]();
    },
  };
}

/** The token by which replicas authenticate to each other; a process without a ServiceAccount runs alone. */
async function createCredentials(client: KubeClient, log: Log, signal: AbortSignal) {
  const credentials = createServiceAccount({ client, audience: `${GROUP}/internal` });
  let isAlone = false;
  await credentials.token(AbortSignal.any([signal, AbortSignal.timeout(5_000)])).catch((error: Error) => {
    // After any other error, the token is requested when it is needed.
    isAlone = error instanceof NoServiceAccountError;
    if (isAlone) log.warn({ reason: error.message }, 'Replicas cannot know each other; run one only');
  });
  return { credentials, isAlone };
}

interface FleetSources {
  leadership: Leadership;
  stores: Stores;
  kinds: Kinds;
  agents: Agents;
  usage: StoredUsage;
  budgets: Budgets;
  /** Unix ms */
  now(): number;
}

/** Figures of the fleet, which only the leader knows. */
function measureFleet(metrics: Metrics, { leadership, stores, kinds, agents, usage, budgets, now }: FleetSources) {
  const [routers, routerHubs] = [
    createTally(stores.nodes, routerOfNode),
    createTally(stores.routerHubs, defaultRouter),
  ];
  const services = createTally(stores.services, serviceByReady);
  const serviceListeners = createTally(stores.services, listenersOfService);
  metrics.fleetFrom(() =>
    leadership.isLeading
      ? {
          ...fleetFigures({
            nodes: stores.nodes.list(),
            applications: stores.applications.list(),
            observation: (uuid) => agents.observations.get(uuid),
            now: now(),
            listeningSince: leadership.since,
          }),
          certificates: certificateFigures(
            [...stores.certificateAuthorities.list(), ...stores.certificates.list()],
            now(),
          ),
          ...{ routers, routerHubs, serviceListeners, services },
          ...busFigures(stores.busHubs.list(), stores.busAccounts.list()),
          objects: countObjects(stores, kinds),
          storedBytes: usage.bytesByKind(),
          budgets: Object.fromEntries(
            QUANTITIES.map((one) => [one, { used: usage.installation[one], limit: budgets.installation[one] }]),
          ),
        }
      : undefined,
  );
}

/** `host:port` without the port. */
const hostOf = (address: string) => address.replace(/:\d+$/, '');

/** A folder of its own comes first: it is there while the other place may not be. */
function placeOf({ releasesFolder, releasesUrl }: Config): Pick<InstallOptions, 'releases'> {
  if (releasesFolder) return { releases: { folder: releasesFolder } };
  return releasesUrl ? { releases: { url: releasesUrl } } : {};
}

/** What the Lease of a replica says of versions. The place where agents find updates counts before a folder without a URL. */
function versionsOf({ releasesFolder, releasesUrl, publicUrl = '' }: Config) {
  const isOwn = releasesFolder !== undefined && releasesUrl === `${publicUrl.replace(/(?<!\/)\/+$/, '')}/releases`;
  const isElsewhere = releasesUrl !== undefined && !isOwn;
  const place = isElsewhere ? { url: releasesUrl } : releasesFolder ? { folder: releasesFolder } : undefined;
  return {
    version: packageJson.version,
    ...(place && { agentRelease: createLatestRelease(place, () => performance.now()) }),
  };
}

/** Where the certificate comes from that clients see; absent: plain HTTP. */
function openTls(
  { server: { tls }, namespace }: Config,
  { client, stores, log }: { client: KubeClient; stores: Stores; log: Log },
  signal: AbortSignal,
): TlsSource | undefined {
  if (!tls) return undefined;
  if ('cert' in tls) return createTlsFiles(tls, { log });
  const own = createOwnCertificate({ client, namespace, stores, hosts: tls.hosts, log });
  void own.run(signal);
  return own;
}

/** Connections that one user has beside the sockets of sessions. */
const SPARE_CONNECTIONS = 64;

interface OpenRestOptions {
  deps: RestDependencies;
  attempt: TakeAttempt;
  tls: TlsSource | undefined;
  log: Log;
  metrics: Metrics;
}

function openRest(config: Config, { deps, tls, attempt, log, metrics }: OpenRestOptions) {
  const { trustProxy } = config.server;
  const { cert, key } = tls?.current ?? {};
  return createRest({
    ...{ deps, attempt },
    limits: {
      connections: {
        ...DEFAULT_LIMITS.connections,
        caller: Math.max(DEFAULT_LIMITS.connections.caller, config.ofUser.sockets + SPARE_CONNECTIONS),
      },
    },
    trustProxy,
    recordsAddresses: config.audit.recordsAddresses,
    log,
    ...(tls && { tls: { ...(cert && key && { cert, key }) } }),
    metrics: {
      leftOut: metrics.leftOut,
      connections: metrics.connections,
      connectionEnded: metrics.connectionEnded,
      request: ({ method, route, status }, seconds) =>
        metrics.httpRequest({ method, route, code: String(status) }, seconds),
    },
  });
}

interface OpsOptions {
  client: KubeClient;
  stores: EssentialStores;
  tls: TlsSource | undefined;
  metrics: Metrics;
}

/** Ready as soon as agents can be served: stores that agents do not depend on have no effect on readiness. */
function createOps({ client, stores, tls, metrics }: OpsOptions) {
  const readiness = createReadinessCheck(client, stores);
  return createOpsServer({
    registry: metrics.registry,
    ready: async () => (await readiness.check(AbortSignal.timeout(5_000)))?.message ?? tls?.problem,
    bound: (server, limits) => void admitConnections(server, { limits, clock: systemClock }),
  });
}
