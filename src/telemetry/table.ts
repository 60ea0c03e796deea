import type { MetricSpec } from '../lib/metric.ts';

/** From a cache hit to a dependency that does not respond. */
const SECONDS = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30] as const;
/** Durations of a change on an edge machine: from a restart to the pull of a large image over a slow link. */
const LONG_SECONDS = [0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600] as const;

const CONTROLLER = { controller: 'the reconciler: `application`, `edge-node`, ...' } as const;
const SESSION = { kind: 'exec or log' } as const;
/** Customary label of the workqueue metrics. */
const QUEUE = { name: 'the reconciler that the queue belongs to' } as const;

/**
 * Every metric of the controller, as data: registration (metrics.ts) and docs/metrics.md are made from it, and dashboard
 * and alerts may name no other. Names follow Prometheus: base units, `_total` for counters; those that have a customary
 * name elsewhere (`workqueue_*`, `process_*`, `nodejs_*`) keep it. Labels are low in cardinality: never a name of an
 * object.
 */
export const CONTROLLER_METRICS = {
  // the fleet: read from memory at each scrape, on the leader only
  nodes: {
    name: 'skerry_nodes',
    type: 'gauge',
    labels: { state: "state of the node's agent, as REST and `kubectl` show it" },
    unit: 'nodes',
    help: 'Nodes by state of their agent. Leader only.',
  },
  nodesReady: {
    name: 'skerry_nodes_by_ready',
    type: 'gauge',
    labels: { ready: 'True, False or Unknown', reason: 'reason of the condition Ready (docs/conditions.md)' },
    unit: 'nodes',
    help: 'Nodes by their condition Ready. Leader only.',
  },
  agentVersions: {
    name: 'skerry_agent_versions',
    type: 'gauge',
    labels: { version: 'version of the agent: the 20 most frequent, and `other`' },
    unit: 'nodes',
    help: 'Provisioned nodes by the version of their agent. Leader only.',
  },
  agentUpdates: {
    name: 'skerry_agent_updates',
    type: 'gauge',
    labels: { reason: 'reason of the condition Updating or UpdateFailed (docs/conditions.md)' },
    unit: 'nodes',
    help: 'Nodes with a change of the version of their agent that is under way or failed. Leader only.',
  },
  contactAge: {
    name: 'skerry_node_contact_age_seconds',
    type: 'gauge',
    labels: { quantile: '0.5, 0.9, 0.99 or 1 (the oldest)' },
    unit: 'seconds',
    help: 'Time since the last contact of the live nodes; up to a minute is the rhythm of long polls. Leader only.',
  },
  applications: {
    name: 'skerry_applications',
    type: 'gauge',
    labels: { ready: 'True, False or Unknown', reason: 'reason of the condition Ready (docs/conditions.md)' },
    unit: 'applications',
    help: 'Applications by their condition Ready. Leader only.',
  },
  microservices: {
    name: 'skerry_microservices',
    type: 'gauge',
    labels: { state: 'state that the node reports' },
    unit: 'microservices',
    help: 'Microservices as the live nodes report them. Leader only.',
  },
  objects: {
    name: 'skerry_objects',
    type: 'gauge',
    labels: { kind: 'kind of the objects: `Application`, `EdgeNode`, ...' },
    unit: 'objects',
    help: 'Objects by kind. Leader only.',
  },
  storedBytes: {
    name: 'skerry_stored_bytes',
    type: 'gauge',
    labels: { kind: 'kind of the objects: `Application`, `Secret`, ...' },
    unit: 'bytes',
    help: 'Bytes of objects as they count for the budgets, without statuses. Leader only.',
  },
  budgetUsed: {
    name: 'skerry_budget_used',
    type: 'gauge',
    labels: { budget: 'content (bytes of Secrets and ConfigMaps), objects (bytes of other kinds) or count (objects)' },
    unit: 'bytes, or objects',
    help: 'What users store. Leader only.',
  },
  budgetLimit: {
    name: 'skerry_budget_limit',
    type: 'gauge',
    labels: { budget: 'content, objects or count' },
    unit: 'bytes, or objects',
    help: 'What users may store, without the reserve (docs/sizing.md). Leader only.',
  },
  microserviceRestarts: {
    name: 'skerry_microservice_restarts',
    type: 'gauge',
    labels: {},
    unit: 'restarts',
    help: 'Restarts after crashes that the live nodes report, summed; falls when a microservice is rebuilt. Leader only.',
  },
  massSilence: {
    name: 'skerry_mass_silence',
    type: 'gauge',
    labels: {},
    unit: '0 or 1',
    help: '1 while so many nodes are silent at once that our own side is suspected. Leader only.',
  },
  readyLag: {
    name: 'skerry_application_ready_lag_seconds',
    type: 'histogram',
    labels: {},
    unit: 'seconds',
    help: 'From a change of an application to its condition Ready being True for it. Leader only.',
    buckets: LONG_SECONDS,
  },

  // the agent channel
  longPolls: {
    name: 'skerry_agent_long_polls',
    type: 'gauge',
    labels: {},
    unit: 'polls',
    help: 'Polls of agents that wait for a change at this replica.',
  },
  longPollsEnded: {
    name: 'skerry_agent_long_polls_ended_total',
    type: 'counter',
    labels: {
      outcome:
        'due (a change), timeout, drained, superseded, gone (the agent went away), or revoked (its key was deleted or replaced)',
    },
    unit: 'polls',
    help: 'Long polls that ended, and how.',
  },
  sendDelay: {
    name: 'skerry_agent_send_delay_seconds',
    type: 'histogram',
    labels: {},
    unit: 'seconds',
    help: 'From a change being seen by this replica to the answer of a long poll that tells the node of it.',
    buckets: SECONDS,
  },
  agentRequests: {
    name: 'skerry_agent_requests_total',
    type: 'counter',
    labels: { kind: 'poll, status (a report), read, or provision' },
    unit: 'requests',
    help: 'Authenticated requests of agents.',
  },
  agentRefusals: {
    name: 'skerry_agent_refusals_total',
    type: 'counter',
    labels: { code: 'code of the answer' },
    unit: 'requests',
    help: 'Requests of agents that were refused.',
  },
  provisionings: {
    name: 'skerry_provisionings_total',
    type: 'counter',
    labels: { outcome: 'new, or again (the same key and agent asked once more)' },
    unit: 'provisionings',
    help: 'Agents that took the identity of a node.',
  },
  reportRepairs: {
    name: 'skerry_agent_report_repairs_total',
    type: 'counter',
    labels: { field: 'field of the report' },
    unit: 'parts',
    help: 'Parts of reports (members, items of lists) that made no sense and were mended or left out.',
  },
  desiredStates: {
    name: 'skerry_desired_states_total',
    type: 'counter',
    labels: { source: 'computed or remembered' },
    unit: 'reads',
    help: 'Desired states of nodes that were needed, by whether they had to be computed.',
  },
  leaderBatches: {
    name: 'skerry_leader_batches_total',
    type: 'counter',
    labels: { outcome: 'sent or failed' },
    unit: 'batches',
    help: 'Batches of what this replica heard, on their way to the leader.',
  },

  leaderRefusals: {
    name: 'skerry_leader_refusals_total',
    type: 'counter',
    labels: {},
    unit: 'reports',
    help: 'Reports of nodes that the leader refused, found one by one and left out. Anything but 0 is a bug.',
  },

  // REST
  connections: {
    name: 'skerry_connections',
    type: 'gauge',
    labels: { class: '`authenticated`: a request on it was authenticated; `stranger`: none was yet' },
    unit: 'connections',
    help: 'Open connections of the port of REST and agents.',
  },
  connectionsEnded: {
    name: 'skerry_connections_ended_total',
    type: 'counter',
    labels: { reason: 'the bound: `address`, `strangers` or `all` (docs/architecture.md#limits-by-address)' },
    unit: 'connections',
    help: 'Connections without an authenticated request that made room for others, and connections that got no place.',
  },
  httpRequests: {
    name: 'skerry_http_request_duration_seconds',
    type: 'histogram',
    labels: { route: 'path of the route, parameters unfilled', method: 'HTTP method', code: 'HTTP status' },
    unit: 'seconds',
    help: 'Requests to REST.',
    buckets: SECONDS,
  },
  listLeftOut: {
    name: 'skerry_list_left_out_total',
    type: 'counter',
    labels: { operation: 'the list that was asked for' },
    unit: 'objects',
    help: 'Objects that could not be shown and were left out of a list; the log names them.',
  },
  accessReviews: {
    name: 'skerry_access_reviews_total',
    type: 'counter',
    labels: {
      review: 'token (who somebody is) or access (what they may do)',
      outcome: 'allowed, denied or failed',
      cached: 'whether the answer was remembered',
    },
    unit: 'reviews',
    help: 'Questions to the API server of who somebody is and what they may do.',
  },
  auditEvents: {
    name: 'skerry_audit_events_total',
    type: 'counter',
    labels: { outcome: 'recorded, or counted (in a summary, because a bound was reached)' },
    unit: 'events',
    help: 'Requests that changed something, in the audit log.',
  },

  // exec and log sessions
  sessions: {
    name: 'skerry_sessions',
    type: 'gauge',
    labels: SESSION,
    unit: 'sessions',
    help: 'Sessions of users at this replica.',
  },
  sessionsBegun: {
    name: 'skerry_sessions_begun_total',
    type: 'counter',
    labels: SESSION,
    unit: 'sessions',
    help: 'Sessions that began.',
  },
  sessionsEnded: {
    name: 'skerry_sessions_ended_total',
    type: 'counter',
    labels: { ...SESSION, code: 'close code (docs/spec/sessions.md#close-codes)' },
    unit: 'sessions',
    help: 'Sessions that ended, and how.',
  },
  socketsRefused: {
    name: 'skerry_session_sockets_refused_total',
    type: 'counter',
    labels: { by: 'user or agent', code: 'HTTP status, or the close code after the upgrade' },
    unit: 'sockets',
    help: 'Sockets that got no session. Agents get 1013 when a replica does not know a session yet.',
  },
  sessionMessages: {
    name: 'skerry_session_messages_total',
    type: 'counter',
    labels: { ...SESSION, from: 'user or agent' },
    unit: 'messages',
    help: 'Messages of users and agents, at the replica of the user.',
  },
  sessionBytes: {
    name: 'skerry_session_bytes_total',
    type: 'counter',
    labels: { ...SESSION, from: 'user or agent' },
    unit: 'bytes',
    help: 'Size of these messages.',
  },
  sessionLinesLeftOut: {
    name: 'skerry_session_lines_left_out_total',
    type: 'counter',
    labels: {},
    unit: 'lines',
    help: 'Lines of logs that were left out, since their user reads too slowly.',
  },

  budgetRefusals: {
    name: 'skerry_budget_refusals_total',
    type: 'counter',
    labels: { budget: 'content, objects or count', scope: 'user or installation' },
    unit: 'requests',
    help: 'Writes over REST that were refused, since they exceed a budget of what is stored.',
  },

  // reconcilers
  reconciles: {
    name: 'skerry_reconcile_duration_seconds',
    type: 'histogram',
    labels: { ...CONTROLLER, outcome: 'done, requeue, conflict, error, bug, fenced or stopped' },
    unit: 'seconds',
    help: 'Reconciles by outcome.',
    buckets: SECONDS,
  },
  overdue: {
    name: 'skerry_reconcile_overdue',
    type: 'gauge',
    labels: CONTROLLER,
    unit: 'reconciles',
    help: 'Reconciles past their deadline that still hold their key. Anything but 0 is a bug or a dead dependency.',
  },
  statusesRefused: {
    name: 'skerry_statuses_refused_total',
    type: 'counter',
    labels: { kind: 'kind of the object' },
    unit: 'statuses',
    help: 'Statuses that the API server refused; the objects say so in Ready (Unknown, StatusRefused).',
  },
  queueDepth: {
    name: 'workqueue_depth',
    type: 'gauge',
    labels: QUEUE,
    unit: 'keys',
    help: 'Keys that wait for a reconcile or are in one.',
  },
  queueWait: {
    name: 'workqueue_queue_duration_seconds',
    type: 'histogram',
    labels: QUEUE,
    unit: 'seconds',
    help: 'Time that keys waited past their due time.',
    buckets: SECONDS,
  },
  queueRetries: {
    name: 'workqueue_retries_total',
    type: 'counter',
    labels: QUEUE,
    unit: 'retries',
    help: 'Reconciles that failed and will be repeated; conflicts are normal life.',
  },

  // the API server
  apiRequests: {
    name: 'skerry_apiserver_request_duration_seconds',
    type: 'histogram',
    labels: { verb: 'get, list, watch, ...', resource: 'plural and group', code: 'HTTP status, or a transport error' },
    unit: 'seconds',
    help: 'Requests to the API server, retries counted singly; of a watch, until it was answered.',
    buckets: SECONDS,
  },
  watchEvents: {
    name: 'skerry_watch_events_total',
    type: 'counter',
    labels: { resource: 'plural and group', type: 'added, modified, deleted or bookmark' },
    unit: 'events',
    help: 'Changes received from watches.',
  },
  watchRestarts: {
    name: 'skerry_watch_restarts_total',
    type: 'counter',
    labels: { resource: 'plural and group', reason: 'why it ended', next: 'resume, or relist' },
    unit: 'watches',
    help: 'Watches that ended and were begun again. One every five to ten minutes is normal.',
  },
  relists: {
    name: 'skerry_relist_duration_seconds',
    type: 'histogram',
    labels: { resource: 'plural and group', mode: 'stream or pages' },
    unit: 'seconds',
    help: 'Complete lists taken.',
    buckets: SECONDS,
  },
  eventsDropped: {
    name: 'skerry_events_dropped_total',
    type: 'counter',
    labels: { reason: 'rate, full or failed' },
    unit: 'events',
    help: 'Kubernetes events that were not recorded.',
  },
  leader: {
    name: 'skerry_leader',
    type: 'gauge',
    labels: { lease: 'name of the Lease' },
    unit: '0 or 1',
    help: '1 while this replica leads.',
  },
  unhandledRejections: {
    name: 'skerry_unhandled_rejections_total',
    type: 'counter',
    labels: {},
    unit: 'rejections',
    help: 'Promises that were rejected and that nothing awaited: faults of the controller, each logged with its cause.',
  },
  info: {
    name: 'skerry_build_info',
    type: 'gauge',
    labels: { version: 'version of the controller' },
    unit: '1',
    help: 'Always 1; the label says what runs.',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
