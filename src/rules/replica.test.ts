import { expect, test } from 'vitest';
import { INACTIVE_REPLICAS, newestAgentRelease, REPLICA_TIMES, type Replica, replicasToRemove } from './replica.ts';

const NOW = Date.parse('2026-01-10T00:00:00Z');
const replica = (uuid: string, age: number, isActive = false): Replica => {
  const at = new Date(NOW - age).toISOString();
  return { uuid, host: '', processId: 1, lastHeartbeat: at, isActive, createdAt: at, updatedAt: at };
};

test('an inactive replica is kept for seven days, and an active one for ever', () => {
  const replicas = [
    replica('old', REPLICA_TIMES.keepMs + 1),
    replica('recent', REPLICA_TIMES.keepMs - 1),
    replica('active', REPLICA_TIMES.keepMs + 1, true),
  ];
  expect(replicasToRemove(replicas, NOW).map(({ uuid }) => uuid)).toEqual(['old']);
});

test('of many inactive replicas the latest are kept', () => {
  const replicas = Array.from({ length: INACTIVE_REPLICAS + 2 }, (_, i) => replica(String(i), i * 1_000));
  expect(replicasToRemove(replicas, NOW).map(({ uuid }) => uuid)).toEqual(['50', '51']);
});

test('the newest release of the agent is that of a replica that runs', () => {
  const of = (agentRelease: string | undefined, isActive = true): Replica => ({
    ...replica('a', 0, isActive),
    ...(agentRelease !== undefined && { agentRelease }),
  });
  expect(newestAgentRelease([of('0.9.0'), of('0.10.0'), of(undefined), of('1.0.0', false)])).toBe('0.10.0');
  expect(newestAgentRelease([of(undefined), of('1.0.0', false)])).toBeUndefined();
});
