import type { IncomingMessage, ServerResponse } from 'node:http';
import type { ControlPlane } from '../../api/names.ts';
import type { EdgeNode } from '../../api/v3/index.ts';
import type { KubeObject, Store } from '../../kube/mod.ts';
import type { AuditEvent } from '../../rules/audit.ts';
import type { DesiredState, Observation } from '../../rules/inputs.ts';
import type { TunnelSettings } from '../../rules/tunnel.ts';
import type { NodeSessions } from '../../sessions/rules/list.ts';
import type { AgentConfig, StatusReport } from '../../wire/agent.ts';

/**
 * The dependencies of the agent routes, and what they provide. Begin with `createAgents` (agents.ts) and routes/table.ts.
 */

/** What one replica observed of one node since its last message to the leader. */
export interface ObservationDelta {
  uuid: string;
  /** Unix ms of the last authenticated contact */
  contactAt: number;
  /** seconds that the long poll may last, 0 without one */
  waitSeconds: number;
  agent?: string;
  instance?: string;
  boot?: string;
  /** merged reports; absent when there was a contact only */
  report?: StatusReport;
  /** Unix ms of the last status report; absent when `report` has only other things that the agent sent */
  reportedAt?: number;
  /** effective settings that the agent sent apart from a report; each member replaces its own and no other */
  settings?: AgentConfig;
  sentRevisions?: Observation['sentRevisions'];
  /** Unix ms of the list of `sentRevisions` */
  listedAt?: number;
  /** epoch to accept while the agent retains what is missing in the datastore; empty when nothing is missing */
  restored?: string;
  /** an agent has just been provisioned: former observations of the node belong to another agent */
  isReset?: true;
}

/** The observations of all nodes, in memory. Every replica creates them; only the leader fills them. */
export interface Observations {
  get(uuid: string): Observation | undefined;
  entries(): IterableIterator<[string, Observation]>;
  observe(delta: ObservationDelta): void;
  /** Removes the observation of a node that is gone. */
  forget(uuid: string): void;
  /** Called after each delta, synchronously; `before` is absent for the first contact of a node. */
  subscribe(listener: (uuid: string, now: Observation, before: Observation | undefined) => void): Disposable;
}

/** The API of the leader for other replicas. Rejects when the leader did not accept the message. */
export interface LeaderApi {
  /** `leadershipId` changes whenever a leader begins without observations. */
  send(batch: readonly ObservationDelta[], signal: AbortSignal): Promise<{ leadershipId: string }>;
  currentValues(uuids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Observation>>;
}

/** Measurements of nodes for reads. Never rejects: what is not available in time is absent. */
export interface CurrentValues {
  of(nodeUuids: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, Observation>>;
}

/** Every hook is optional and must not throw. Labels have a low cardinality. */
export interface AgentRouteMetrics {
  agent?(what: AgentMetric, detail?: string): void;
  longPolls?(count: number): void;
  /** due, timeout, drained, superseded, gone or revoked */
  longPollEnded?(outcome: string): void;
  /** seconds from a change in a store to the response of a long poll */
  sendDelay?(seconds: number): void;
}
export type AgentMetric =
  | 'poll'
  | 'status'
  | 'read'
  | 'provision'
  | 'refused'
  | 'desired-state'
  | 'delta-batch'
  | 'delta-refused'
  | 'report-repaired';

/** What the audit log is told of a request; it numbers and dates it. */
export type RecordedEvent = Omit<AuditEvent, 'id' | 'timestamp'>;

export interface AgentOptions {
  namespace: string;
  /** the URL of the controller for agents; when set, tokens for another audience are refused */
  publicUrl?: string;
  /** base64 PEM of the CA that agents are to trust; empty when there is none */
  caCert?: () => string;
  /** Calls the listener after each change of `caCert`. */
  caCertChanges?: (listener: () => void) => Disposable;
  /** where our agents find releases of themselves */
  releasesUrl?: string;
  /** `kubernetes` by default; only the other one has nodes of the system */
  controlPlane?: ControlPlane;
  /** random key of the installation, the same on all replicas (NodeInputs.revisionKey) */
  revisionKey?: string;
  /** the ssh server of tunnels; without it no node has one */
  tunnel?: TunnelSettings;
  /** address of a client, for limits: that of the socket, or the one that a trusted proxy sends */
  addressOf?: (req: IncomingMessage) => string;
  /** A request on this connection was authenticated, as one of this caller, such as `node <uuid>`. */
  authenticated?: (req: IncomingMessage, caller: string) => void;
  /** begins a new list of a store that lags behind, and returns at once; without it the store catches up by its watch alone */
  listAgain?: (store: Store<KubeObject>) => void;
  /** without them every list of sessions is empty */
  sessions?: NodeSessions;
  /** the audit log, and whether it has the addresses of clients; without it nothing is recorded */
  audit?: { record(event: RecordedEvent): void; recordsAddresses: boolean };
  limits?: Partial<AgentLimits>;
  /** Unix ms at which this process began, now by default: it cannot know which tokens were used before */
  startedAt?: number;
}

export interface AgentLimits {
  /** one status report */
  reportBytes: number;
  /** any other body */
  bodyBytes: number;
  /** the body of a provisioning, from a caller without identity */
  provisioningBytes: number;
  /** bodies that are being received: in total, of one node, of all callers without identity, and of one address */
  receiving: Readonly<Record<'all' | 'node' | 'provisioning' | 'address', { bytes: number; messages: number }>>;
  /** large responses that their clients have not taken yet: in total, and of one node or address */
  sending: Readonly<Record<'all' | 'node', { bytes: number; messages: number }>>;
  /** until a body must be complete */
  bodyMs: number;
  provisioningBodyMs: number;
  longPolls: number;
  longPollsPerNode: number;
  /** the rate of requests of one node, per second */
  requestsPerNode: number;
  /** failed provisionings of one address in a minute */
  guessesPerMinute: number;
  /** refused node tokens of one address in a minute; beyond it 429, and no look-up of unknown nodes for that address */
  refusalsPerMinute: number;
}

export const AGENT_LIMITS: AgentLimits = {
  reportBytes: 4 * 2 ** 20,
  bodyBytes: 128 * 2 ** 10,
  provisioningBytes: 16 * 2 ** 10,
  receiving: {
    all: { bytes: 64 * 2 ** 20, messages: 4_000 },
    node: { bytes: 5 * 2 ** 20, messages: 4 },
    provisioning: { bytes: 4 * 2 ** 20, messages: 1_000 },
    address: { bytes: 2 ** 20, messages: 256 },
  },
  // A node may get as much as our agent reads (32 MiB). Compression holds a response twice for a moment.
  sending: {
    all: { bytes: 128 * 2 ** 20, messages: 10_000 },
    node: { bytes: 32 * 2 ** 20, messages: 4 },
  },
  bodyMs: 20_000,
  provisioningBodyMs: 10_000,
  longPolls: 50_000,
  longPollsPerNode: 4,
  requestsPerNode: 20,
  guessesPerMinute: 30,
  refusalsPerMinute: 300,
};

/** An authenticated node. */
export interface NodeIdentity {
  uuid: string;
  node: EdgeNode;
}

/** A node whose agent opens a socket, and until when it may be open. */
interface Admitted extends NodeIdentity {
  /** Calls `end` once when the key of the node ends. The function returned cancels that. */
  onRevoked(end: () => void): () => void;
}

/** The agent routes on a listener that other routes share. */
export interface AgentRoutes extends AsyncDisposable {
  /** Serves requests below `/api/v3/agent`; false, without any effect, when the request has another path. */
  handle(req: IncomingMessage, res: ServerResponse): boolean;
  /** Verifies and uses up the token of a request, for WebSocket upgrades. Rejects with AgentFailure. */
  authenticate(req: IncomingMessage): Promise<Admitted>;
  /** Ends long polls and refuses new requests with 503; resolves when the leader has all observations, or after the grace time. */
  drain(graceMs: number): Promise<void>;
  /** True when every required store is complete and the replica does not drain. */
  readonly ready: boolean;
  readonly longPolls: number;
  /** The desired state of a node as it is sent; undefined when there is no such node. */
  readonly desired: (nodeUuid: string) => DesiredState | undefined;
}
