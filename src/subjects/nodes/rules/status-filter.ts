import type { EdgeNodeStatus } from '../../../api/v3/index.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { MEASUREMENTS, type MicroserviceStatus, type StatusReport } from '../../../wire/agent.ts';
import type { ArtifactStatus } from '../../../wire/artifacts.ts';

/** Members that no stored status has: a change of them causes no write. */
const MEASURED: ReadonlySet<keyof StatusReport> = new Set<keyof StatusReport>([
  ...MEASUREMENTS,
  'lastCommandTime',
  'repositoryStatus',
  'activeModels',
  'modelLastUpdate',
  'activeKnowledge',
  'knowledgeLastUpdate',
]);
const MEASURED_OF_MICROSERVICE: ReadonlySet<keyof MicroserviceStatus> = new Set<keyof MicroserviceStatus>([
  'cpuUsage',
  'memoryUsage',
  'operatingDuration',
  'percentage',
]);

const MEASURED_OF_ARTIFACT: ReadonlySet<keyof ArtifactStatus> = new Set<keyof ArtifactStatus>([
  'percentage',
  'totalBytes',
]);

/** Greatest age of the stored time of the last contact: one write per node in five minutes. */
const LAST_SEEN_MS = 5 * 60_000;

/**
 * Whether an observation can change the stored status. Heartbeats and measurements cannot, so they cause no reconcile, and
 * reports of thousands of nodes cause no work for the leader. The end of a silence is not checked here.
 */
export function affectsStatus(
  now: Observation,
  before: Observation | undefined,
  stored: EdgeNodeStatus | undefined,
  clock: number,
): boolean {
  if (!before || !stored || stored.observedGeneration === -1) return true;
  if (stored.daemonStatus === 'NOT_PROVISIONED' || stored.daemonStatus === 'DEPROVISIONED') return true;
  if (stored.lastSeenTime === undefined || clock - Date.parse(stored.lastSeenTime) >= LAST_SEEN_MS) return true;
  if (now.agent !== before.agent || Object.keys(now.instances).length !== Object.keys(before.instances).length)
    return true;
  if (now.restored !== before.restored) return true;
  // What was sent to a third-party agent applies to its next report, even when that report equals the former one.
  if (
    now.sentRevisions !== before.sentRevisions ||
    (now.agent === undefined && now.reportedAt !== before.reportedAt && isUnsettled(stored))
  )
    return true;
  return now.report !== before.report && reportDiffers(now.report, before.report);
}

/** Whether a change is not complete on this node, so that an equal report may complete it. */
const isUnsettled = (stored: EdgeNodeStatus) =>
  stored.microservices?.some(({ state, revision }) => state !== 'RUNNING' || !revision) ?? false;

function reportDiffers(a: StatusReport, b: StatusReport): boolean {
  const keys = new Set([...Object.keys(a), ...Object.keys(b)]) as Set<keyof StatusReport>;
  for (const key of keys) {
    if (MEASURED.has(key) || a[key] === b[key]) continue;
    const significant = SIGNIFICANT.get(key) ?? JSON.stringify;
    if (significant(a[key]) !== significant(b[key])) return true;
  }
  return false;
}

/** JSON text of the items of a list without members that constantly change. */
const itemsWithout =
  (measured: ReadonlySet<string>) =>
  (items: unknown): string =>
    JSON.stringify(items ?? [], (key, value: unknown) => (measured.has(key) ? undefined : value));

const SIGNIFICANT: ReadonlyMap<keyof StatusReport, (items: unknown) => string> = new Map([
  ['microserviceStatus', itemsWithout(MEASURED_OF_MICROSERVICE)],
  ['modelStatus', itemsWithout(MEASURED_OF_ARTIFACT)],
  ['knowledgeStatus', itemsWithout(MEASURED_OF_ARTIFACT)],
]);
