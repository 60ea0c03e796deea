import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { CONTROLLER_METRICS as TABLE } from './table.ts';

type Table = typeof TABLE;
type LabelsOf<K extends keyof Table> = keyof Table[K]['labels'] & string;
type MetricOf<K extends keyof Table> = {
  counter: Counter<LabelsOf<K>>;
  gauge: Gauge<LabelsOf<K>>;
  histogram: Histogram<LabelsOf<K>>;
}[Table[K]['type']];

/** Figures of the fleet that only the leader has; computed when the metrics are read. */
export interface FleetFigures {
  nodes: ReadonlyMap<string, number>;
  nodesReady: readonly { ready: string; reason: string; count: number }[];
  /** nodes by version of their agent */
  agentVersions: ReadonlyMap<string, number>;
  /** nodes by what their update waits for, or that it failed */
  agentUpdates: ReadonlyMap<string, number>;
  /** nodes by the phase of their platform */
  nodePlatforms: ReadonlyMap<string, number>;
  /** seconds since the last contact of each live node */
  contactAges: readonly number[];
  applications: readonly { ready: string; reason: string; count: number }[];
  microservices: ReadonlyMap<string, number>;
  microserviceRestarts: number;
  /** certificates and authorities by state */
  certificates: ReadonlyMap<string, number>;
  /** servers of the hub of the message bus by state */
  busServers: ReadonlyMap<string, number>;
  /** accounts of the message bus by the status of their condition Ready */
  busAccounts: ReadonlyMap<string, number>;
  /** accounts of the message bus that trust a former key */
  busFormerKeys: number;
  /** routers of nodes, and default routers, by what they have */
  routers: ReadonlyMap<string, number>;
  routerHubs: ReadonlyMap<string, number>;
  /** services by status and reason of their condition Ready, with a space between them */
  services: ReadonlyMap<string, number>;
  /** routers that are to listen for services, by whether they do */
  serviceListeners: ReadonlyMap<string, number>;
  /** by kind */
  objects: ReadonlyMap<string, number>;
  storedBytes: ReadonlyMap<string, number>;
  /** by budget */
  budgets: Readonly<Record<string, { used: number; limit: number }>>;
}

/** Figures of logins; absent: not known, or of the other mode. */
interface FiguresOfLogins {
  sessions?: number | undefined;
  interactions?: number | undefined;
  signingKeySeconds?: number;
  /** 1, or 0 */
  providerUp?: number;
}

/** The counter and labels of each event of the agent channel; the argument is the detail of the event. */
const ON_THE_CHANNEL: Readonly<Record<string, (detail: string) => [keyof Table, Record<string, string>]>> = {
  poll: () => ['agentRequests', { kind: 'poll' }],
  status: () => ['agentRequests', { kind: 'status' }],
  read: () => ['agentRequests', { kind: 'read' }],
  provision: (outcome) => (outcome ? ['provisionings', { outcome }] : ['agentRequests', { kind: 'provision' }]),
  refused: (code) => ['agentRefusals', { code }],
  'desired-state': (source) => ['desiredStates', { source }],
  'delta-batch': (outcome) => ['leaderBatches', { outcome }],
  'delta-refused': () => ['leaderRefusals', {}],
  'report-repaired': (field) => ['reportRepairs', { field }],
};

/** Outcomes of a reconcile that is retried. */
const RETRIED: ReadonlySet<string> = new Set(['conflict', 'error', 'bug', 'fenced']);

/**
 * The metrics of a controller process. Each part of the program declares the hooks it calls as an interface of its own;
 * this object satisfies all of them.
 */
export function createMetrics({ version = '' }: { version?: string } = {}) {
  const registry = new Registry();
  // The event loop delay is sampled ten times a second; the default, ten times as often, costs half a percent of a core.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  let logins: () => FiguresOfLogins | undefined = () => undefined;
  let fleet: () => FleetFigures | undefined = () => undefined;
  const metrics = Object.fromEntries(
    Object.entries(TABLE).map(([key, spec]) => [
      key,
      makeMetric(spec, registry, { nodes: readFleet, loginSessions: readLogins }[key]),
    ]),
  ) as { [K in keyof Table]: MetricOf<K> };
  metrics.info.set({ version }, 1);

  /** A gauge without labels is 0 after a reset; an unknown value must be absent. */
  function readLogins(): void {
    const { sessions, interactions, signingKeySeconds, providerUp } = logins() ?? {};
    const values: [Gauge, number | undefined][] = [
      [metrics.loginSessions, sessions],
      [metrics.interactions, interactions],
      [metrics.signingKeyAge, signingKeySeconds],
      [metrics.providerUp, providerUp],
    ];
    for (const [gauge, value] of values) {
      if (value === undefined) gauge.remove();
      else gauge.set(value);
    }
  }

  /** Sets all metrics of the fleet when the first of them is read. A replica that does not lead has none of them. */
  function readFleet(): void {
    const { nodes, nodesReady, agentVersions, agentUpdates, nodePlatforms, contactAge } = metrics;
    const {
      applications,
      microservices,
      microserviceRestarts,
      certificates,
      busServers,
      busAccounts,
      busFormerKeys,
      routers,
      routerHubs,
      services,
      serviceListeners,
      objects,
      storedBytes,
      budgetUsed,
      budgetLimit,
    } = metrics;
    const stored = [
      certificates,
      busServers,
      busAccounts,
      busFormerKeys,
      routers,
      routerHubs,
      services,
      serviceListeners,
      objects,
      storedBytes,
      budgetUsed,
      budgetLimit,
    ];
    const ofNodes = [nodes, nodesReady, agentVersions, agentUpdates, nodePlatforms, contactAge];
    for (const metric of [...ofNodes, applications, microservices, microserviceRestarts, ...stored]) metric.reset();
    const figures = fleet();
    // A gauge without labels is 0 after a reset; an unknown value must be absent.
    if (!figures) {
      microserviceRestarts.remove();
      busFormerKeys.remove();
      return;
    }
    for (const [state, count] of figures.nodes) nodes.set({ state }, count);
    for (const { ready, reason, count } of figures.nodesReady) nodesReady.set({ ready, reason }, count);
    for (const [version, count] of figures.agentVersions) agentVersions.set({ version }, count);
    for (const [reason, count] of figures.agentUpdates) agentUpdates.set({ reason }, count);
    for (const [phase, count] of figures.nodePlatforms) nodePlatforms.set({ phase }, count);
    for (const { ready, reason, count } of figures.applications) applications.set({ ready, reason }, count);
    for (const [state, count] of figures.microservices) microservices.set({ state }, count);
    microserviceRestarts.set(figures.microserviceRestarts);
    for (const [state, count] of figures.certificates) certificates.set({ state }, count);
    for (const [state, count] of figures.busServers) busServers.set({ state }, count);
    for (const [ready, count] of figures.busAccounts) busAccounts.set({ ready }, count);
    busFormerKeys.set(figures.busFormerKeys);
    for (const [state, count] of figures.routers) routers.set({ state }, count);
    for (const [state, count] of figures.routerHubs) routerHubs.set({ state }, count);
    for (const [state, count] of figures.serviceListeners) serviceListeners.set({ state }, count);
    for (const [group, count] of figures.services) {
      const [ready = '', reason = ''] = group.split(' ');
      services.set({ ready, reason }, count);
    }
    for (const [kind, count] of figures.objects) objects.set({ kind }, count);
    for (const [kind, bytes] of figures.storedBytes) storedBytes.set({ kind }, bytes);
    for (const [budget, { used, limit }] of Object.entries(figures.budgets)) {
      budgetUsed.set({ budget }, used);
      budgetLimit.set({ budget }, limit);
    }
    const ages = Float64Array.from(figures.contactAges).sort();
    for (const quantile of ages.length > 0 ? [0.5, 0.9, 0.99, 1] : [])
      contactAge.set({ quantile: String(quantile) }, ages[Math.ceil(quantile * ages.length) - 1] ?? 0);
  }

  return {
    registry,
    /** Sets the source of the fleet's figures, which returns undefined while this replica does not lead. */
    fleetFrom: (read: typeof fleet) => {
      fleet = read;
    },
    /** Sets the source of the figures of logins. */
    loginsFrom: (read: typeof logins) => {
      logins = read;
    },
    loginAttempt: (labels: { door: string; outcome: string }) => metrics.loginAttempts.inc(labels),
    lockout: () => metrics.lockouts.inc(),
    passwordCheck: (labels: { kind: string }) => metrics.passwordChecks.inc(labels),
    passwordsWaiting: (count: number) => metrics.passwordsWaiting.set(count),
    passwordWaited: (seconds: number) => metrics.passwordWait.observe(seconds),
    refresh: (labels: { outcome: string }) => metrics.refreshes.inc(labels),
    apiRequest: (labels: { verb: string; resource: string; code: string }, seconds: number) =>
      metrics.apiRequests.observe(labels, seconds),
    watchEvent: (labels: { resource: string; type: string }) => metrics.watchEvents.inc(labels),
    watchEnded: (labels: { resource: string; reason: string; next: string }) => metrics.watchRestarts.inc(labels),
    relisted: (labels: { resource: string; mode: string }, _items: number, seconds: number) =>
      metrics.relists.observe(labels, seconds),
    queueDepth: ({ controller: name }: { controller: string }, depth: number) =>
      metrics.queueDepth.set({ name }, depth),
    queueWait: ({ controller: name }: { controller: string }, seconds: number) =>
      metrics.queueWait.observe({ name }, seconds),
    reconciled: (labels: { controller: string; outcome: string }, seconds: number) => {
      metrics.reconciles.observe(labels, seconds);
      if (RETRIED.has(labels.outcome)) metrics.queueRetries.inc({ name: labels.controller });
    },
    overdue: (labels: { controller: string }, count: number) => metrics.overdue.set(labels, count),
    leading: (labels: { lease: string }, is: boolean) => metrics.leader.set(labels, is ? 1 : 0),
    eventDropped: (labels: { reason: string }) => metrics.eventsDropped.inc(labels),
    massSilence: (is: boolean) => metrics.massSilence.set(is ? 1 : 0),
    statusRefused: (labels: { kind: string }) => metrics.statusesRefused.inc(labels),
    ready: (seconds: number) => metrics.readyLag.observe(seconds),
    httpRequest: (labels: { route: string; method: string; code: string }, seconds: number) =>
      metrics.httpRequests.observe(labels, seconds),
    connections: ({ authenticated, strangers }: { authenticated: number; strangers: number }) => {
      metrics.connections.set({ class: 'authenticated' }, authenticated);
      metrics.connections.set({ class: 'stranger' }, strangers);
    },
    connectionEnded: (reason: string) => metrics.connectionsEnded.inc({ reason }),
    leftOut: (labels: { operation: string }) => metrics.listLeftOut.inc(labels),
    access: ({ review, outcome, cached }: { review: string; outcome: string; cached: boolean }) =>
      metrics.accessReviews.inc({ review, outcome, cached: String(cached) }),
    agent: (what: string, detail = '') => {
      const [key, labels] = ON_THE_CHANNEL[what]?.(detail) ?? ['agentRequests', { kind: what }];
      (metrics[key] as Counter<string>).inc(labels);
    },
    unhandledRejection: () => metrics.unhandledRejections.inc(),
    audit: (outcome: 'recorded' | 'counted', count: number) => metrics.auditEvents.inc({ outcome }, count),
    budgetRefused: (labels: { budget: string; scope: string }) => metrics.budgetRefusals.inc(labels),
    longPolls: (count: number) => metrics.longPolls.set(count),
    longPollEnded: (outcome: string) => metrics.longPollsEnded.inc({ outcome }),
    sendDelay: (seconds: number) => metrics.sendDelay.observe(seconds),
    sessionBegan(kind: string) {
      metrics.sessions.inc({ kind });
      metrics.sessionsBegun.inc({ kind });
    },
    sessionEnded(kind: string, code: number) {
      metrics.sessions.dec({ kind });
      metrics.sessionsEnded.inc({ kind, code: String(code) });
    },
    socketRefused: (by: string, code: number) => metrics.socketsRefused.inc({ by, code: String(code) }),
    sessionMessage(kind: string, from: string, bytes: number) {
      metrics.sessionMessages.inc({ kind, from });
      metrics.sessionBytes.inc({ kind, from }, bytes);
    },
    lineLeftOut: () => metrics.sessionLinesLeftOut.inc(),
  };
}

function makeMetric(
  spec: (typeof TABLE)[keyof Table] & { buckets?: readonly number[] },
  registry: Registry,
  collect?: () => void,
): Counter | Gauge | Histogram {
  const { name, help } = spec;
  const common = {
    name,
    help,
    labelNames: Object.keys(spec.labels),
    registers: [registry],
    ...(collect && { collect }),
  };
  switch (spec.type) {
    case 'counter':
      return new Counter(common);
    case 'gauge':
      return new Gauge(common);
    case 'histogram':
      return new Histogram({ ...common, buckets: [...(spec.buckets ?? [])] });
  }
}
