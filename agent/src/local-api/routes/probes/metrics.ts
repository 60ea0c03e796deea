import { counter, gauge, histogram, type MetricSpec } from '../../../../../src/lib/metric-table.ts';

const LOOK_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5] as const;
/** From an image that is nearly there to a large one over a thin line. */
const PULL_SECONDS = [1, 5, 15, 60, 300, 900, 3600] as const;
const MICROSERVICE = { application: 'name of its application', microservice: 'its name' } as const;

/**
 * Every metric of the agent, as data: what `/metrics` serves and docs/metrics.md are made from it. Units are
 * base units. Labels are low in cardinality: outcomes and reasons are closed
 * lists, and microservices are those of this one machine.
 */
export const AGENT_METRICS = {
  info: gauge('edge_agent_build_info', '1', 'Always 1; the label says what runs.', { version: 'version of the agent' }),
  uptime: gauge('edge_agent_uptime_seconds', 'seconds', 'Seconds since the agent started.'),
  provisioned: gauge('edge_agent_provisioned', '0 or 1', 'Whether the agent belongs to a controller.'),

  // the controller
  connected: gauge('edge_agent_controller_connected', '0 or 1', 'Whether the controller answers.'),
  connection: gauge(
    'edge_agent_controller_connection',
    '1',
    'Always 1; the label says how the controller is reached.',
    { state: 'OK, NOT_PROVISIONED, NOT_CONNECTED, UNAUTHORIZED, BROKEN_CERTIFICATE, ...' },
  ),
  lastContact: gauge(
    'edge_agent_last_contact_timestamp_seconds',
    'seconds since 1970',
    'When the controller answered last; 0 when it never did since the start.',
  ),
  clockOffset: gauge(
    'edge_agent_clock_offset_seconds',
    'seconds',
    "How far the controller's clock is ahead of this machine's.",
  ),
  requests: counter('edge_agent_controller_requests_total', 'requests', 'Requests to the controller.', {
    kind: 'poll, report, document or other',
    code: 'HTTP status, or the code of a transport error',
  }),

  // the container engine and what it runs
  engineConnected: gauge('edge_agent_engine_connected', '0 or 1', 'Whether the container engine answers.'),
  engineLosses: counter(
    'edge_agent_engine_losses_total',
    'losses',
    'How often the connection to the container engine was lost.',
  ),
  looks: {
    ...histogram(
      'edge_agent_reconcile_duration_seconds',
      'seconds',
      'Looks at the container engine, planning included.',
    ),
    buckets: LOOK_SECONDS,
  },
  running: gauge('edge_agent_running_microservices', 'microservices', 'Microservices in RUNNING.'),
  microservices: gauge('edge_agent_microservices', 'microservices', 'Microservices by state.', {
    state: 'state, as it is reported',
  }),
  microserviceRestarts: gauge(
    'edge_agent_microservice_restarts',
    'restarts',
    'Restarts after crashes, since the last rebuild.',
    MICROSERVICE,
  ),
  steps: counter('edge_agent_steps_total', 'steps', 'Steps carried out on the container engine.', {
    step: 'network, image, create, start, stop, rename or remove',
    outcome: 'ok, failed or given-up',
  }),
  pending: gauge('edge_agent_steps_pending', 'steps', 'Steps that are under way or wait for their turn.'),
  starts: counter(
    'edge_agent_starts_total',
    'starts',
    'Containers started, by reason; all but New and Replacement are restarts.',
    { reason: 'New, Replacement, Crashed, EngineRestarted, MachineRebooted, FoundStopped, ...' },
  ),
  pulls: counter('edge_agent_pulls_total', 'pulls', 'Images pulled; those that were there already do not count.', {
    outcome: 'ok, given-up, or the reason of the failure',
  }),
  pullSeconds: {
    ...histogram('edge_agent_pull_duration_seconds', 'seconds', 'Pulls that succeeded, without the wait for a turn.'),
    buckets: PULL_SECONDS,
  },

  // models and knowledge
  artifacts: gauge('edge_agent_artifacts', 'artifacts', 'Models and knowledge of this node by state.', {
    kind: 'models or knowledge',
    state: 'Pending, Pulling, Ready or Failed',
  }),
  artifactPulls: counter('edge_agent_artifact_pulls_total', 'pulls', 'Pulls of models and knowledge that have ended.', {
    kind: 'models or knowledge',
    outcome: 'ok, given-up, or the reason of the failure',
  }),
  artifactLookUps: counter(
    'edge_agent_artifact_look_ups_total',
    'look-ups',
    'Look-ups of what a branch or a tag means now, of artifacts that are here.',
    { kind: 'models or knowledge', outcome: 'same, newer, or the reason of the failure' },
  ),
  artifactBytes: counter(
    'edge_agent_artifact_received_bytes_total',
    'bytes',
    'Content of models and knowledge that pulls have received or found on the disk.',
  ),

  // the machine
  memory: gauge('edge_agent_resident_memory_bytes', 'bytes', 'Memory of the agent itself.'),
  cpu: counter('edge_agent_cpu_seconds_total', 'seconds', 'CPU time of the agent itself.'),
  diskUsed: gauge(
    'edge_agent_disk_used_bytes',
    'bytes',
    "What the agent's own directory holds: database, identity, volumes.",
  ),
  diskAvailable: gauge(
    'edge_agent_disk_available_bytes',
    'bytes',
    "Free space of the file system that holds the agent's directory.",
  ),
  diskSize: gauge('edge_agent_disk_size_bytes', 'bytes', "Size of the file system that holds the agent's directory."),
  unhandledRejections: counter(
    'edge_agent_unhandled_rejections_total',
    'rejections',
    'Promises that were rejected and that nothing awaited: faults of the agent, each logged with its cause.',
  ),
  localApiConnectionsClosed: counter(
    'edge_agent_local_api_connections_closed_total',
    'connections',
    'Connections of the local API that were refused because their peer has its share, or closed in favour of others.',
    { listener: 'bridge (containers) or loopback' },
  ),
  localApiRequests: counter('edge_agent_local_api_requests_total', 'requests', 'Requests to the local API.', {
    operation: 'name of the operation in docs/local-api.openapi.json, or none',
    status: 'HTTP status, or disconnected: the client did not wait',
  }),
  storeErrors: counter(
    'edge_agent_store_errors_total',
    'errors',
    'Writes that the database refused; supervision goes on from memory.',
  ),
} satisfies Readonly<Record<string, MetricSpec>>;
