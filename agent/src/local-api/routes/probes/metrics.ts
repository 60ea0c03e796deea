import type { MetricSpec } from '../../../../../src/lib/metric.ts';

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
  info: {
    name: 'edge_agent_build_info',
    type: 'gauge',
    labels: { version: 'version of the agent' },
    unit: '1',
    help: 'Always 1; the label says what runs.',
  },
  uptime: {
    name: 'edge_agent_uptime_seconds',
    type: 'gauge',
    labels: {},
    unit: 'seconds',
    help: 'Seconds since the agent started.',
  },
  provisioned: {
    name: 'edge_agent_provisioned',
    type: 'gauge',
    labels: {},
    unit: '0 or 1',
    help: 'Whether the agent belongs to a controller.',
  },

  // the controller
  connected: {
    name: 'edge_agent_controller_connected',
    type: 'gauge',
    labels: {},
    unit: '0 or 1',
    help: 'Whether the controller answers.',
  },
  connection: {
    name: 'edge_agent_controller_connection',
    type: 'gauge',
    labels: { state: 'OK, NOT_PROVISIONED, NOT_CONNECTED, UNAUTHORIZED, BROKEN_CERTIFICATE, ...' },
    unit: '1',
    help: 'Always 1; the label says how the controller is reached.',
  },
  lastContact: {
    name: 'edge_agent_last_contact_timestamp_seconds',
    type: 'gauge',
    labels: {},
    unit: 'seconds since 1970',
    help: 'When the controller answered last; 0 when it never did since the start.',
  },
  clockOffset: {
    name: 'edge_agent_clock_offset_seconds',
    type: 'gauge',
    labels: {},
    unit: 'seconds',
    help: "How far the controller's clock is ahead of this machine's.",
  },
  requests: {
    name: 'edge_agent_controller_requests_total',
    type: 'counter',
    labels: { kind: 'poll, report, document or other', code: 'HTTP status, or the code of a transport error' },
    unit: 'requests',
    help: 'Requests to the controller.',
  },

  // the container engine and what it runs
  engineConnected: {
    name: 'edge_agent_engine_connected',
    type: 'gauge',
    labels: {},
    unit: '0 or 1',
    help: 'Whether the container engine answers.',
  },
  engineLosses: {
    name: 'edge_agent_engine_losses_total',
    type: 'counter',
    labels: {},
    unit: 'losses',
    help: 'How often the connection to the container engine was lost.',
  },
  looks: {
    name: 'edge_agent_reconcile_duration_seconds',
    type: 'histogram',
    labels: {},
    unit: 'seconds',
    help: 'Looks at the container engine, planning included.',
    buckets: LOOK_SECONDS,
  },
  running: {
    name: 'edge_agent_running_microservices',
    type: 'gauge',
    labels: {},
    unit: 'microservices',
    help: 'Microservices in RUNNING.',
  },
  microservices: {
    name: 'edge_agent_microservices',
    type: 'gauge',
    labels: { state: 'state, as it is reported' },
    unit: 'microservices',
    help: 'Microservices by state.',
  },
  microserviceRestarts: {
    name: 'edge_agent_microservice_restarts',
    type: 'gauge',
    labels: MICROSERVICE,
    unit: 'restarts',
    help: 'Restarts after crashes, since the last rebuild.',
  },
  steps: {
    name: 'edge_agent_steps_total',
    type: 'counter',
    labels: { step: 'network, image, create, start, stop, rename or remove', outcome: 'ok, failed or given-up' },
    unit: 'steps',
    help: 'Steps carried out on the container engine.',
  },
  pending: {
    name: 'edge_agent_steps_pending',
    type: 'gauge',
    labels: {},
    unit: 'steps',
    help: 'Steps that are under way or wait for their turn.',
  },
  starts: {
    name: 'edge_agent_starts_total',
    type: 'counter',
    labels: { reason: 'New, Replacement, Crashed, EngineRestarted, MachineRebooted, FoundStopped, ...' },
    unit: 'starts',
    help: 'Containers started, by reason; all but New and Replacement are restarts.',
  },
  pulls: {
    name: 'edge_agent_pulls_total',
    type: 'counter',
    labels: { outcome: 'ok, given-up, or the reason of the failure' },
    unit: 'pulls',
    help: 'Images pulled; those that were there already do not count.',
  },
  pullSeconds: {
    name: 'edge_agent_pull_duration_seconds',
    type: 'histogram',
    labels: {},
    unit: 'seconds',
    help: 'Pulls that succeeded, without the wait for a turn.',
    buckets: PULL_SECONDS,
  },

  // models and knowledge
  artifacts: {
    name: 'edge_agent_artifacts',
    type: 'gauge',
    labels: { kind: 'models or knowledge', state: 'Pending, Pulling, Ready or Failed' },
    unit: 'artifacts',
    help: 'Models and knowledge of this node by state.',
  },
  artifactPulls: {
    name: 'edge_agent_artifact_pulls_total',
    type: 'counter',
    labels: { kind: 'models or knowledge', outcome: 'ok, given-up, or the reason of the failure' },
    unit: 'pulls',
    help: 'Pulls of models and knowledge that have ended.',
  },
  artifactLookUps: {
    name: 'edge_agent_artifact_look_ups_total',
    type: 'counter',
    labels: { kind: 'models or knowledge', outcome: 'same, newer, or the reason of the failure' },
    unit: 'look-ups',
    help: 'Look-ups of what a branch or a tag means now, of artifacts that are here.',
  },
  artifactBytes: {
    name: 'edge_agent_artifact_received_bytes_total',
    type: 'counter',
    labels: {},
    unit: 'bytes',
    help: 'Content of models and knowledge that pulls have received or found on the disk.',
  },

  // the machine
  memory: {
    name: 'edge_agent_resident_memory_bytes',
    type: 'gauge',
    labels: {},
    unit: 'bytes',
    help: 'Memory of the agent itself.',
  },
  cpu: {
    name: 'edge_agent_cpu_seconds_total',
    type: 'counter',
    labels: {},
    unit: 'seconds',
    help: 'CPU time of the agent itself.',
  },
  diskUsed: {
    name: 'edge_agent_disk_used_bytes',
    type: 'gauge',
    labels: {},
    unit: 'bytes',
    help: "What the agent's own directory holds: database, identity, volumes.",
  },
  diskAvailable: {
    name: 'edge_agent_disk_available_bytes',
    type: 'gauge',
    labels: {},
    unit: 'bytes',
    help: "Free space of the file system that holds the agent's directory.",
  },
  diskSize: {
    name: 'edge_agent_disk_size_bytes',
    type: 'gauge',
    labels: {},
    unit: 'bytes',
    help: "Size of the file system that holds the agent's directory.",
  },
  unhandledRejections: {
    name: 'edge_agent_unhandled_rejections_total',
    type: 'counter',
    labels: {},
    unit: 'rejections',
    help: 'Promises that were rejected and that nothing awaited: faults of the agent, each logged with its cause.',
  },
  localApiConnectionsClosed: {
    name: 'edge_agent_local_api_connections_closed_total',
    type: 'counter',
    labels: { listener: 'bridge (containers) or loopback' },
    unit: 'connections',
    help: 'Connections of the local API that were refused because their peer has its share, or closed in favour of others.',
  },
  storeErrors: {
    name: 'edge_agent_store_errors_total',
    type: 'counter',
    labels: {},
    unit: 'errors',
    help: 'Writes that the database refused; supervision goes on from memory.',
  },
} as const satisfies Readonly<Record<string, MetricSpec>>;
