import type { Condition } from '../../../api/meta.ts';
import { type Application, type EdgeNode, PLATFORM_PHASES } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { Observation } from '../../../rules/inputs.ts';
import { daemonState, liveness } from './liveness.ts';

export interface FleetInputs {
  nodes: Iterable<EdgeNode>;
  applications: Iterable<Application>;
  observation: (uuid: string) => Observation | undefined;
  /** Unix ms */
  now: number;
  /** Unix ms, when the leader began to lead */
  listeningSince: number;
}

/** Figures of the fleet for metrics, in one pass over memory, which takes a millisecond for a thousand nodes. */
export function fleetFigures({ nodes, applications, observation, now, listeningSince }: FleetInputs) {
  const states = new Map<string, number>();
  const microservices = new Map<string, number>();
  const versions = new Map<string, number>();
  const updates = new Map<string, number>();
  const nodesReady = new Map<string, number>();
  const nodePlatforms = new Map<string, number>(PLATFORM_PHASES.map((phase) => [phase, 0]));
  const contactAges: number[] = [];
  let microserviceRestarts = 0;
  for (const node of nodes) {
    const observed = observation(nodeUuid(node));
    const alive = liveness(node, observed, now, listeningSince);
    count(states, daemonState(node, observed, alive));
    count(nodesReady, readiness(node.status));
    count(nodePlatforms, node.status?.platformStatus?.phase ?? 'Pending');
    const version = observed?.report.version ?? node.status?.version;
    if (version !== undefined) count(versions, version);
    for (const { type, status, reason } of node.status?.conditions ?? [])
      if ((type === 'Updating' || type === 'UpdateFailed') && status === 'True') count(updates, reason);
    // The last report of a silent node may be out of date.
    if (alive !== 'live' || !observed) continue;
    const contact = Math.max(observed.contactAt ?? 0, observed.reportedAt ?? 0);
    if (contact > 0) contactAges.push(Math.max(0, now - contact) / 1000);
    for (const { status, restartCount } of observed.report?.microserviceStatus ?? []) {
      count(microservices, status ?? 'UNKNOWN');
      microserviceRestarts += restartCount ?? 0;
    }
  }
  const ready = new Map<string, number>();
  for (const { status } of applications) count(ready, readiness(status));
  return {
    nodes: states,
    nodesReady: byReadiness(nodesReady),
    agentVersions: mostFrequent(versions),
    agentUpdates: updates,
    nodePlatforms,
    contactAges,
    microservices,
    microserviceRestarts,
    applications: byReadiness(ready),
  };
}

/** Agents choose their versions, so series for all of them would be without bound. */
const MOST_VERSIONS = 20;

function mostFrequent(versions: ReadonlyMap<string, number>): ReadonlyMap<string, number> {
  if (versions.size <= MOST_VERSIONS) return versions;
  const sorted = [...versions].sort(([, a], [, b]) => b - a);
  const rest = sorted.slice(MOST_VERSIONS).reduce((sum, [, nodes]) => sum + nodes, 0);
  return new Map([...sorted.slice(0, MOST_VERSIONS), ['other', rest]]);
}

/** The condition Ready as one key. */
function readiness(status: { conditions?: readonly Condition[] } | undefined): string {
  const condition = status?.conditions?.find(({ type }) => type === 'Ready');
  return `${condition?.status ?? 'Unknown'} ${condition?.reason ?? ''}`;
}

const byReadiness = (counts: ReadonlyMap<string, number>) =>
  [...counts].map(([key, count]) => {
    const [ready = '', reason = ''] = key.split(' ');
    return { ready, reason, count };
  });

const count = (into: Map<string, number>, key: string) => void into.set(key, (into.get(key) ?? 0) + 1);
