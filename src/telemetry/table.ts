import { counter, gauge, histogram, type MetricSpec } from '../lib/metric-table.ts';

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
  nodes: gauge('skerry_nodes', 'nodes', 'Nodes by state of their agent. Leader only.', {
    state: "state of the node's agent, as REST and `kubectl` show it",
  }),
  nodesReady: gauge('skerry_nodes_by_ready', 'nodes', 'Nodes by their condition Ready. Leader only.', {
    ready: 'True, False or Unknown',
    reason: 'reason of the condition Ready (docs/conditions.md)',
  }),
  agentVersions: gauge(
    'skerry_agent_versions',
    'nodes',
    'Provisioned nodes by the version of their agent. Leader only.',
    { version: 'version of the agent: the 20 most frequent, and `other`' },
  ),
  agentUpdates: gauge(
    'skerry_agent_updates',
    'nodes',
    'Nodes with a change of the version of their agent that is under way or failed. Leader only.',
    { reason: 'reason of the condition Updating or UpdateFailed (docs/conditions.md)' },
  ),
  contactAge: gauge(
    'skerry_node_contact_age_seconds',
    'seconds',
    'Time since the last contact of the live nodes; up to a minute is the rhythm of long polls. Leader only.',
    { quantile: '0.5, 0.9, 0.99 or 1 (the oldest)' },
  ),
  applications: gauge('skerry_applications', 'applications', 'Applications by their condition Ready. Leader only.', {
    ready: 'True, False or Unknown',
    reason: 'reason of the condition Ready (docs/conditions.md)',
  }),
  microservices: gauge(
    'skerry_microservices',
    'microservices',
    'Microservices as the live nodes report them. Leader only.',
    { state: 'state that the node reports' },
  ),
  nodePlatforms: gauge('skerry_node_platforms', 'nodes', 'Nodes by the phase of their platform. Leader only.', {
    phase: 'Pending (no agent has the identity), Progressing, Ready, Failed or Deleting',
  }),
  certificates: gauge(
    'skerry_certificates',
    'certificates',
    'Certificates and certificate authorities by what their certificate is. Leader only.',
    { state: 'valid, overdue (its time of renewal has passed), expired, or missing' },
  ),
  busServers: gauge(
    'skerry_bus_hub_servers',
    'servers',
    'Servers of the hub of the message bus by the tokens that they have. Leader only.',
    { state: 'current (every token), or behind' },
  ),
  busAccounts: gauge('skerry_bus_accounts', 'accounts', 'Accounts of the message bus by Ready. Leader only.', {
    ready: 'True, False or Unknown',
  }),
  busFormerKeys: gauge(
    'skerry_bus_former_keys',
    'accounts',
    'Accounts of the message bus that trust a former key, whose users are to fetch their credentials again. Leader only.',
  ),
  routers: gauge('skerry_routers', 'routers', 'Routers of nodes by what their machines report of them. Leader only.', {
    state: 'current (runs with all that it is sent), behind, or unknown (its node is silent)',
  }),
  routerHubs: gauge('skerry_router_hubs', 'routers', 'Default routers by what they have. Leader only.', {
    state: 'current (has every service), or behind (lacks some, or cannot be reached)',
  }),
  services: gauge('skerry_services', 'services', 'Services by their condition Ready. Leader only.', {
    ready: 'True, False or Unknown',
    reason: 'reason of the condition Ready (docs/conditions.md)',
  }),
  serviceListeners: gauge(
    'skerry_service_listeners',
    'listeners',
    'Listeners of services at the routers that are to have them, summed over all services. Leader only.',
    { state: 'up, or down (the router does not listen, or its node is silent)' },
  ),
  objects: gauge('skerry_objects', 'objects', 'Objects by kind. Leader only.', {
    kind: 'kind of the objects: `Application`, `EdgeNode`, ...',
  }),
  storedBytes: gauge(
    'skerry_stored_bytes',
    'bytes',
    'Bytes of objects as they count for the budgets, without statuses. Leader only.',
    { kind: 'kind of the objects: `Application`, `Secret`, ...' },
  ),
  budgetUsed: gauge('skerry_budget_used', 'bytes, or objects', 'What users store. Leader only.', {
    budget: 'content (bytes of Secrets and ConfigMaps), objects (bytes of other kinds) or count (objects)',
  }),
  budgetLimit: gauge(
    'skerry_budget_limit',
    'bytes, or objects',
    'What users may store, without the reserve (docs/sizing.md). Leader only.',
    { budget: 'content, objects or count' },
  ),
  microserviceRestarts: gauge(
    'skerry_microservice_restarts',
    'restarts',
    'Restarts after crashes that the live nodes report, summed; falls when a microservice is rebuilt. Leader only.',
  ),
  massSilence: gauge(
    'skerry_mass_silence',
    '0 or 1',
    '1 while so many nodes are silent at once that our own side is suspected. Leader only.',
  ),
  readyLag: {
    ...histogram(
      'skerry_application_ready_lag_seconds',
      'seconds',
      'From a change of an application to its condition Ready being True for it. Leader only.',
    ),
    buckets: LONG_SECONDS,
  },

  // the agent channel
  longPolls: gauge('skerry_agent_long_polls', 'polls', 'Polls of agents that wait for a change at this replica.'),
  longPollsEnded: counter('skerry_agent_long_polls_ended_total', 'polls', 'Long polls that ended, and how.', {
    outcome:
      'due (a change), timeout, drained, superseded, gone (the agent went away), or revoked (its key was deleted or replaced)',
  }),
  sendDelay: {
    ...histogram(
      'skerry_agent_send_delay_seconds',
      'seconds',
      'From a change being seen by this replica to the answer of a long poll that tells the node of it.',
    ),
    buckets: SECONDS,
  },
  agentRequests: counter('skerry_agent_requests_total', 'requests', 'Authenticated requests of agents.', {
    kind: 'poll, status (a report), read, or provision',
  }),
  agentRefusals: counter('skerry_agent_refusals_total', 'requests', 'Requests of agents that were refused.', {
    code: 'code of the answer',
  }),
  provisionings: counter('skerry_provisionings_total', 'provisionings', 'Agents that took the identity of a node.', {
    outcome: 'new, or again (the same key and agent asked once more)',
  }),
  reportRepairs: counter(
    'skerry_agent_report_repairs_total',
    'parts',
    'Parts of reports (members, items of lists) that made no sense and were mended or left out.',
    { field: 'field of the report' },
  ),
  desiredStates: counter(
    'skerry_desired_states_total',
    'reads',
    'Desired states of nodes that were needed, by whether they had to be computed.',
    { source: 'computed or remembered' },
  ),
  leaderBatches: counter(
    'skerry_leader_batches_total',
    'batches',
    'Batches of what this replica heard, on their way to the leader.',
    { outcome: 'sent or failed' },
  ),

  leaderRefusals: counter(
    'skerry_leader_refusals_total',
    'reports',
    'Reports of nodes that the leader refused, found one by one and left out. Anything but 0 is a bug.',
  ),

  // REST
  connections: gauge('skerry_connections', 'connections', 'Open connections of the port of REST and agents.', {
    class: '`authenticated`: a request on it was authenticated; `stranger`: none was yet',
  }),
  connectionsEnded: counter(
    'skerry_connections_ended_total',
    'connections',
    'Connections without an authenticated request that made room for others, and connections that got no place.',
    { reason: 'the bound: `address`, `strangers` or `all` (docs/architecture.md#limits-by-address)' },
  ),
  httpRequests: {
    ...histogram('skerry_http_request_duration_seconds', 'seconds', 'Requests to REST.', {
      route: 'path of the route, parameters unfilled',
      method: 'HTTP method',
      code: 'HTTP status',
    }),
    buckets: SECONDS,
  },
  listLeftOut: counter(
    'skerry_list_left_out_total',
    'objects',
    'Objects that could not be shown and were left out of a list; the log names them.',
    { operation: 'the list that was asked for' },
  ),
  accessReviews: counter(
    'skerry_access_reviews_total',
    'reviews',
    'Questions to the API server of who somebody is and what they may do.',
    {
      review: 'token (who somebody is) or access (what they may do)',
      outcome: 'allowed, denied or failed',
      cached: 'whether the answer was remembered',
    },
  ),
  auditEvents: counter('skerry_audit_events_total', 'events', 'Requests that changed something, in the audit log.', {
    outcome: 'recorded, or counted (in a summary, because a bound was reached)',
  }),

  // exec and log sessions
  sessions: gauge('skerry_sessions', 'sessions', 'Sessions of users at this replica.', SESSION),
  sessionsBegun: counter('skerry_sessions_begun_total', 'sessions', 'Sessions that began.', SESSION),
  sessionsEnded: counter('skerry_sessions_ended_total', 'sessions', 'Sessions that ended, and how.', {
    ...SESSION,
    code: 'close code (docs/spec/sessions.md#close-codes)',
  }),
  socketsRefused: counter(
    'skerry_session_sockets_refused_total',
    'sockets',
    'Sockets that got no session. Agents get 1013 when a replica does not know a session yet.',
    { by: 'user or agent', code: 'HTTP status, or the close code after the upgrade' },
  ),
  sessionMessages: counter(
    'skerry_session_messages_total',
    'messages',
    'Messages of users and agents, at the replica of the user.',
    { ...SESSION, from: 'user or agent' },
  ),
  sessionBytes: counter('skerry_session_bytes_total', 'bytes', 'Size of these messages.', {
    ...SESSION,
    from: 'user or agent',
  }),
  sessionLinesLeftOut: counter(
    'skerry_session_lines_left_out_total',
    'lines',
    'Lines of logs that were left out, since their user reads too slowly.',
  ),

  budgetRefusals: counter(
    'skerry_budget_refusals_total',
    'requests',
    'Writes over REST that were refused, since they exceed a budget of what is stored.',
    { budget: 'content, objects or count', scope: 'user or installation' },
  ),

  // logins of people
  loginAttempts: counter('skerry_login_attempts_total', 'attempts', 'Attempts at passwords and codes.', {
    door: 'login, totp, interaction, current-password, mfa-confirm, mfa-disable or reset-token',
    outcome:
      'passed, part (the code was not sent), wrong, none (no such account, or it is locked), or refused (429: nothing was compared)',
  }),
  lockouts: counter('skerry_account_lockouts_total', 'accounts', 'Accounts that were locked after wrong attempts.'),
  passwordChecks: counter('skerry_password_checks_total', 'hashes', 'Passwords that were compared.', {
    kind: 'real, or dummy (the same work where there is no account)',
  }),
  passwordsWaiting: gauge('skerry_passwords_waiting', 'hashes', 'Passwords that wait to be hashed.'),
  passwordWait: {
    ...histogram('skerry_password_wait_seconds', 'seconds', 'Time that passwords waited before they were hashed.'),
    buckets: SECONDS,
  },
  refreshes: counter('skerry_token_refreshes_total', 'refreshes', 'Uses of refresh tokens.', {
    outcome:
      'rotated, same (rotation is off), late (another use won at the same moment), reuse (used before: its login ended) or unknown',
  }),
  loginSessions: gauge(
    'skerry_login_sessions',
    'logins',
    'Logins that users have; expired ones count until their user logs in again. Leader only.',
  ),
  interactions: gauge(
    'skerry_login_interactions',
    'logins',
    'Logins in the browser that are under way; at most 1,000. Leader only.',
  ),
  signingKeyAge: gauge(
    'skerry_signing_key_age_seconds',
    'seconds',
    'Time since the key began to sign that tokens are signed with.',
  ),
  providerUp: gauge(
    'skerry_identity_provider_up',
    '0 or 1',
    '1 while the OpenID provider of AUTH_MODE=external can be asked; absent in the other mode.',
  ),

  // reconcilers
  reconciles: {
    ...histogram('skerry_reconcile_duration_seconds', 'seconds', 'Reconciles by outcome.', {
      ...CONTROLLER,
      outcome: 'done, requeue, conflict, error, bug, fenced or stopped',
    }),
    buckets: SECONDS,
  },
  overdue: gauge(
    'skerry_reconcile_overdue',
    'reconciles',
    'Reconciles past their deadline that still hold their key. Anything but 0 is a bug or a dead dependency.',
    CONTROLLER,
  ),
  statusesRefused: counter(
    'skerry_statuses_refused_total',
    'statuses',
    'Statuses that the API server refused; the objects say so in Ready (Unknown, StatusRefused).',
    { kind: 'kind of the object' },
  ),
  queueDepth: gauge('workqueue_depth', 'keys', 'Keys that wait for a reconcile or are in one.', QUEUE),
  queueWait: {
    ...histogram('workqueue_queue_duration_seconds', 'seconds', 'Time that keys waited past their due time.', QUEUE),
    buckets: SECONDS,
  },
  queueRetries: counter(
    'workqueue_retries_total',
    'retries',
    'Reconciles that failed and will be repeated; conflicts are normal life.',
    QUEUE,
  ),

  // the API server
  apiRequests: {
    ...histogram(
      'skerry_apiserver_request_duration_seconds',
      'seconds',
      'Requests to the API server, retries counted singly; of a watch, until it was answered.',
      { verb: 'get, list, watch, ...', resource: 'plural and group', code: 'HTTP status, or a transport error' },
    ),
    buckets: SECONDS,
  },
  watchEvents: counter('skerry_watch_events_total', 'events', 'Changes received from watches.', {
    resource: 'plural and group',
    type: 'added, modified, deleted or bookmark',
  }),
  watchRestarts: counter(
    'skerry_watch_restarts_total',
    'watches',
    'Watches that ended and were begun again. One every five to ten minutes is normal.',
    { resource: 'plural and group', reason: 'why it ended', next: 'resume, or relist' },
  ),
  relists: {
    ...histogram('skerry_relist_duration_seconds', 'seconds', 'Complete lists taken.', {
      resource: 'plural and group',
      mode: 'stream or pages',
    }),
    buckets: SECONDS,
  },
  eventsDropped: counter('skerry_events_dropped_total', 'events', 'Kubernetes events that were not recorded.', {
    reason: 'rate, full or failed',
  }),
  leader: gauge('skerry_leader', '0 or 1', '1 while this replica leads.', { lease: 'name of the Lease' }),
  unhandledRejections: counter(
    'skerry_unhandled_rejections_total',
    'rejections',
    'Promises that were rejected and that nothing awaited: faults of the controller, each logged with its cause.',
  ),
  info: gauge('skerry_build_info', '1', 'Always 1; the label says what runs.', {
    version: 'version of the controller',
  }),
} satisfies Readonly<Record<string, MetricSpec>>;
