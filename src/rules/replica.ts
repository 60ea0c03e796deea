import { compareVersions } from '../api/version.ts';

/** A process of the controller, as the cluster routes show it (docs/resources/cluster.md). */
export interface Replica {
  uuid: string;
  host: string;
  processId: number;
  /** RFC 3339 */
  lastHeartbeat: string;
  isActive: boolean;
  createdAt: string;
  updatedAt: string;
  /** of the controller */
  version?: string;
  /** version of the latest release of the agent that it has for machines */
  agentRelease?: string;
}

export const REPLICA_TIMES = {
  /** between two heartbeats: what a replica costs the API server */
  heartbeatMs: 30_000,
  /** without a heartbeat for longer, a replica is inactive */
  activeMs: 90_000,
  /** between two removals of old replicas */
  cleanMs: 3_600_000,
  /** age at which an inactive replica is removed */
  keepMs: 7 * 86_400_000,
} as const;

/** The most inactive replicas that are kept, since a process that crashes at once would add one each time. */
export const INACTIVE_REPLICAS = 50;

const ageOf = (replica: Replica, now: number) => now - Date.parse(replica.lastHeartbeat);

/** The newest release of the agent that a running replica has for machines; undefined when none has any. */
export const newestAgentRelease = (replicas: readonly Replica[]): string | undefined =>
  replicas
    .flatMap(({ isActive, agentRelease }) => (isActive && agentRelease !== undefined ? [agentRelease] : []))
    .sort(compareVersions)
    .at(-1);

/** Inactive replicas that are too old, or too many; the latest are kept. */
export function replicasToRemove<T extends Replica>(replicas: readonly T[], now: number): T[] {
  return replicas
    .filter(({ isActive }) => !isActive)
    .sort((a, b) => ageOf(a, now) - ageOf(b, now))
    .filter((replica, i) => i >= INACTIVE_REPLICAS || ageOf(replica, now) > REPLICA_TIMES.keepMs);
}
