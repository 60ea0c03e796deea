import type { EdgeNode } from '../../../api/v3/index.ts';
import type { Liveness, Observation } from '../../../rules/inputs.ts';
import type { DaemonState, StatusReport } from '../../../wire/agent.ts';

/** Seconds between reports, unless the machine names another frequency. */
const DEFAULT_STATUS_FREQUENCY = 10;

/** The members of an observation that liveness depends on. */
export type Signs = Pick<Observation, 'contactAt' | 'reportedAt' | 'waitSeconds'> & {
  report?: Pick<StatusReport, 'daemonStatus' | 'config'>;
};

/**
 * Milliseconds without a sign of life after which a node counts as silent: max(3 x statusFrequency, long poll + 30 s). Of
 * the frequency in the spec and the one that the machine reports the slower counts: a change that is not applied yet, or
 * was refused, is not silence.
 */
export function silenceLimit(node: EdgeNode, waitSeconds = 0): number {
  const known = Math.max(node.spec.statusFrequency ?? 0, node.status?.config?.statusFrequency ?? 0);
  return Math.max(3 * (known || DEFAULT_STATUS_FREQUENCY), waitSeconds + 30) * 1000;
}

/** Our agent reports at least every 60 s; one of two reports may be lost. */
const REPORTS_MS = 150_000;

/**
 * Whether a node is live. `listeningSince` (Unix ms) is when this process began to lead: no node becomes silent before one
 * limit has passed since then. Reads and the leader call this function.
 */
export function liveness(node: EdgeNode, signs: Signs | undefined, now: number, listeningSince: number): Liveness {
  const at = silentAt(node, signs, listeningSince);
  if (at === undefined) return 'never';
  return now < at ? 'live' : 'silent';
}

/** When (Unix ms) a node turns silent unless it shows another sign of life; undefined when no agent has its identity. */
export function silentAt(node: EdgeNode, signs: Signs | undefined, listeningSince: number): number | undefined {
  const sign = signOfLife(node, signs, listeningSince);
  return sign && sign.at + sign.limit;
}

/** A sign of life: its time (Unix ms), and for how many ms it counts. */
export interface SignOfLife {
  of: 'contact' | 'report';
  at: number;
  limit: number;
}

/**
 * The sign of life that expires first. A contact is one, and a report is another: an agent that only polls does not show
 * what runs, and its last report expires.
 */
export function signOfLife(node: EdgeNode, signs: Signs | undefined, listeningSince: number): SignOfLife | undefined {
  if (isUnclaimed(node, signs)) return undefined;
  const time = (text = '') => Date.parse(text) || 0;
  // A stored silence does not end because another process begins to lead.
  const grace = node.status?.daemonStatus === 'UNKNOWN' ? 0 : listeningSince;
  const reported = signs?.reportedAt ?? 0;
  const contact: SignOfLife = {
    of: 'contact',
    at: Math.max(signs?.contactAt ?? 0, reported, time(node.status?.lastSeenTime), grace),
    limit: silenceLimit(node, signs?.waitSeconds),
  };
  const provisioned = time(node.status?.provisionedTime);
  if (!reported && !provisioned) return contact;
  const report: SignOfLife = {
    of: 'report',
    at: Math.max(reported, provisioned, grace),
    limit: Math.max(silenceLimit(node), REPORTS_MS),
  };
  return report.at + report.limit < contact.at + contact.limit ? report : contact;
}

/** No agent has taken the identity of the node yet, or its agent gave it up. */
function isUnclaimed(node: EdgeNode, signs: Signs | undefined): boolean {
  const reported = signs?.report?.daemonStatus;
  if (reported === 'DEPROVISIONED') return true;
  const { daemonStatus, lastSeenTime, provisionedTime } = node.status ?? {};
  if (daemonStatus === 'DEPROVISIONED') return reported === undefined;
  return !signs?.contactAt && !signs?.reportedAt && !lastSeenTime && !provisionedTime;
}

/** Stored states that a node leaves with the next contact of its agent. */
const LEFT_BEHIND: ReadonlySet<string | undefined> = new Set([
  'NOT_PROVISIONED',
  'DEPROVISIONED',
  'UNKNOWN',
  undefined,
]);

/** State of the agent of a node: as reported, or UNKNOWN when the node is silent. Reads compute it, the leader writes it. */
export function daemonState(
  node: EdgeNode,
  signs: { report?: Pick<StatusReport, 'daemonStatus'> } | undefined,
  alive: Liveness,
): DaemonState {
  const stored = node.status?.daemonStatus as DaemonState | undefined;
  const reported = signs?.report?.daemonStatus;
  if (alive === 'silent') return 'UNKNOWN';
  if (alive === 'never')
    return reported === 'DEPROVISIONED' || stored === 'DEPROVISIONED' ? 'DEPROVISIONED' : 'NOT_PROVISIONED';
  // UNKNOWN means silence, which does not apply to a live node.
  if (reported === 'UNKNOWN' || reported === 'NOT_PROVISIONED') return 'WARNING';
  // Before the first report, contact alone shows that the agent runs.
  return reported ?? (LEFT_BEHIND.has(stored) ? 'RUNNING' : (stored as DaemonState));
}
