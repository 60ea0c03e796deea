import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';

/** Seconds; from a cache hit to a hanging dependency. */
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30];

/**
 * The metrics of a controller process under the prefix `skerry_`. Each part of the program declares the hooks it calls
 * as an interface of its own; this object satisfies all of them. Labels are low in cardinality: never a name of an
 * object.
 */
export function createMetrics(registry: Registry = new Registry()) {
  collectDefaultMetrics({ register: registry, prefix: 'skerry_' });
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Counter({ name: `skerry_${name}`, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Gauge({ name: `skerry_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(name: string, help: string, labelNames: L[]) =>
    new Histogram({ name: `skerry_${name}`, help, labelNames, registers, buckets: SECONDS });

  const apiRequests = histogram('apiserver_request_seconds', 'Requests to the API server, retries counted singly.', [
    'verb',
    'resource',
    'code',
  ]);
  const watchEvents = counter('watch_events_total', 'Changes received from watches.', ['resource', 'type']);
  const watchEnds = counter('watch_ends_total', 'Watches that ended, and what followed.', [
    'resource',
    'reason',
    'next',
  ]);
  const relists = histogram('relist_seconds', 'Complete lists taken.', ['resource', 'mode']);
  const queueDepth = gauge('queue_depth', 'Keys that wait for a reconcile.', ['controller']);
  const queueWait = histogram('queue_wait_seconds', 'Time that keys waited past their due time.', ['controller']);
  const reconciles = histogram('reconcile_seconds', 'Reconciles by outcome.', ['controller', 'outcome']);
  const overdue = gauge('reconcile_overdue', 'Reconciles past their deadline that still hold their key.', [
    'controller',
  ]);
  const leading = gauge('leader', '1 while this replica leads.', ['lease']);
  const eventsDropped = counter('events_dropped_total', 'Kubernetes events that were not recorded.', ['reason']);
  const nodes = gauge('nodes', 'Nodes by state of their agent.', ['state']);
  const massSilence = gauge(
    'mass_silence',
    '1 while so many nodes are silent at once that our own side is suspected.',
    [],
  );
  const httpRequests = histogram('http_request_seconds', 'Requests to REST and agent routes.', [
    'route',
    'method',
    'code',
  ]);
  const access = counter(
    'access_reviews_total',
    'Questions of who somebody is (token) and what they may do (access).',
    ['review', 'outcome', 'cached'],
  );
  const agentCounts = counter('agent_channel_total', 'What happened on the agent channel.', ['what', 'detail']);
  const heldPolls = gauge('agent_held_polls', 'Polls that wait for a change.', []);

  return {
    registry,
    apiRequest: (labels: { verb: string; resource: string; code: string }, seconds: number) =>
      apiRequests.observe(labels, seconds),
    watchEvent: (labels: { resource: string; type: string }) => watchEvents.inc(labels),
    watchEnded: (labels: { resource: string; reason: string; next: string }) => watchEnds.inc(labels),
    relisted: (labels: { resource: string; mode: string }, _items: number, seconds: number) =>
      relists.observe(labels, seconds),
    queueDepth: (labels: { controller: string }, depth: number) => queueDepth.set(labels, depth),
    queueWait: (labels: { controller: string }, seconds: number) => queueWait.observe(labels, seconds),
    reconciled: (labels: { controller: string; outcome: string }, seconds: number) =>
      reconciles.observe(labels, seconds),
    overdue: (labels: { controller: string }, count: number) => overdue.set(labels, count),
    leading: (labels: { lease: string }, is: boolean) => leading.set(labels, is ? 1 : 0),
    eventDropped: (labels: { reason: string }) => eventsDropped.inc(labels),
    nodes: (counts: ReadonlyMap<string, number>) => {
      nodes.reset();
      for (const [state, count] of counts) nodes.set({ state }, count);
    },
    massSilence: (is: boolean) => massSilence.set(is ? 1 : 0),
    httpRequest: (labels: { route: string; method: string; code: string }, seconds: number) =>
      httpRequests.observe(labels, seconds),
    access: ({ review, outcome, cached }: { review: string; outcome: string; cached: boolean }) =>
      access.inc({ review, outcome, cached: String(cached) }),
    agent: (what: string, detail = '') => agentCounts.inc({ what, detail }),
    heldPolls: (count: number) => heldPolls.set(count),
  };
}

export type SkerryMetrics = ReturnType<typeof createMetrics>;
