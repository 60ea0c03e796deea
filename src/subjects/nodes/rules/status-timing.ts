import type { EdgeNode, EdgeNodeStatus } from '../../../api/v3/index.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { silentAt } from './liveness.ts';

/** The first report of an agent follows its provisioning within this time; then one status carries both. */
const FIRST_REPORT_MS = 1_000;

/** Milliseconds to wait for the first report of an agent that was provisioned a moment ago; 0 when there is no need. */
export function firstReportWait(
  provisionedAt: number | undefined,
  observation: Observation | undefined,
  now: number,
): number {
  if (provisionedAt === undefined || (observation?.reportedAt ?? 0) >= provisionedAt) return 0;
  // The time is by the clock of the replica that provisioned, which may be ahead.
  return now < provisionedAt ? 0 : Math.max(0, provisionedAt + FIRST_REPORT_MS - now);
}

/** Timers may fire a little early. */
const MARGIN_MS = 50;

/**
 * Milliseconds until the status of a node changes without another contact: its silence begins. Undefined for a node whose
 * identity no agent has, and for one whose stored state is UNKNOWN already.
 */
export function silenceDueMs(
  node: EdgeNode,
  observation: Observation | undefined,
  { daemonStatus }: Pick<EdgeNodeStatus, 'daemonStatus'>,
  { now, listeningSince }: { now: number; listeningSince: number },
): number | undefined {
  const at = daemonStatus === 'UNKNOWN' ? undefined : silentAt(node, observation, listeningSince);
  return at === undefined ? undefined : Math.max(at - now, 0) + MARGIN_MS;
}
