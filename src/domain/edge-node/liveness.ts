import type { EdgeNode } from '../../api/v3/index.ts';
import type { DaemonState, StatusReport } from '../../wire/index.ts';
import type { Liveness, Observation } from '../inputs.ts';

/** Seconds between reports of a machine that names no other. */
export const DEFAULT_STATUS_FREQUENCY = 10;

/** What liveness looks at of an observation. */
export type Signs = Pick<Observation, 'contactAt' | 'reportedAt' | 'waitSeconds'> & {
  report?: Pick<StatusReport, 'daemonStatus' | 'config'>;
};

/**
 * Milliseconds without a sign of life after which a node counts as silent: max(3 x statusFrequency, hold + 30 s). Of the
 * frequency that is asked for and the one that the machine reports the slower counts: a change is on its way, or was
 * refused, and neither is silence.
 */
export function silenceLimit(node: EdgeNode, waitSeconds = 0): number {
  const known = Math.max(node.spec.statusFrequency ?? 0, node.status?.config?.statusFrequency ?? 0);
  return Math.max(3 * (known || DEFAULT_STATUS_FREQUENCY), waitSeconds + 30) * 1000;
}

/** Our agent reports every 60 s when nothing happens; of two reports one may be lost. */
const REPORTS_MS = 150_000;

/**
 * Whether a node is heard of. `listeningSince` (Unix ms) is when this process began to listen: nobody is silent before
 * it has listened for one limit. Computed reads and the leader ask the same function.
 */
export function liveness(node: EdgeNode, signs: Signs | undefined, now: number, listeningSince: number): Liveness {
  const at = silentAt(node, signs, listeningSince);
  if (at === undefined) return 'never';
  return now < at ? 'live' : 'silent';
}

/** When (Unix ms) a node turns silent if nothing more is heard of it; undefined when no agent speaks for it. */
export function silentAt(node: EdgeNode, signs: Signs | undefined, listeningSince: number): number | undefined {
  const sign = signOfLife(node, signs, listeningSince);
  return sign && sign.at + sign.limit;
}

/** What a node is judged by: a time (Unix ms), and for how many ms it counts. */
export interface SignOfLife {
  of: 'contact' | 'report';
  at: number;
  limit: number;
}

/**
 * The sign of life that ends first. Any contact is one, and so is a report: who only polls tells nothing of what runs, so
 * that what he told before is not known any more.
 */
export function signOfLife(node: EdgeNode, signs: Signs | undefined, listeningSince: number): SignOfLife | undefined {
  if (isUnclaimed(node, signs)) return undefined;
  const time = (text = '') => Date.parse(text) || 0;
  // silence that was already noticed does not end because another process begins to listen
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

/** Stored states that a node leaves as soon as its agent is heard of again. */
const LEFT_BEHIND: ReadonlySet<string | undefined> = new Set([
  'NOT_PROVISIONED',
  'DEPROVISIONED',
  'UNKNOWN',
  undefined,
]);

/** State of a node's agent: what it said, what silence makes of it. Reads say so at once, the leader writes it. */
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
  // UNKNOWN is what silence makes of a node, and this one is heard of
  if (reported === 'UNKNOWN' || reported === 'NOT_PROVISIONED') return 'WARNING';
  // heard of, but without a report so far: contact alone says that it runs
  return reported ?? (LEFT_BEHIND.has(stored) ? 'RUNNING' : (stored as DaemonState));
}
