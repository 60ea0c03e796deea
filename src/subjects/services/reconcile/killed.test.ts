import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { createLeaderKills } from '../../../../testing/leader-kills.ts';
import { CORE_SERVICES, servicesOn } from '../_fleet.ts';

/** A leader that is killed before or after each of its writes, while services get ports, change and lose their backends. */
let fleet: InMemoryController;
let kills: ReturnType<typeof createLeaderKills>;
/** ports that a status ever had, by the name of the service */
const seen = new Map<string, Set<number>>();
beforeAll(async () => {
  fleet = await startInMemoryController(1, servicesOn({ ROUTER_HUB: 'true' }));
  kills = createLeaderKills(fleet, {
    resources: new Set(['services', 'configmaps']),
    deletedByLeader: new Set(['services']),
    countsStatuses: true,
    onWritten: note,
  });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

function note(_resource: string, { metadata, status }: { metadata: { name: string }; status?: unknown }) {
  const port = (status as { bridgePort?: number } | undefined)?.bridgePort;
  if (port !== undefined) seen.set(metadata.name, (seen.get(metadata.name) ?? new Set()).add(port));
}

const host = {
  ...{ type: 'external', resource: 'db.example', targetPort: 1 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};

async function faults(names: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const ports = new Map<number, string>();
  const hub = fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.['skrouterd.json'] ?? '';
  for (const name of names) {
    const status = fleet.stores.services.get(NAMESPACE, name)?.status;
    const port = status?.bridgePort ?? 0;
    const inCluster = await fleet.cluster.client.find(CORE_SERVICES, { namespace: NAMESPACE, name });
    if (status?.provisioningStatus !== 'ready') found.push(`${name} is ${status?.provisioningStatus}`);
    if (ports.has(port)) found.push(`${name} has the port of ${ports.get(port)}`);
    if (inCluster?.spec.ports[0]?.targetPort !== port) found.push(`the Service ${name} leads to another port`);
    if (seen.get(name)?.size !== 1) found.push(`${name} had ${seen.get(name)?.size} ports`);
    if (!hub.includes(`"name":"${name}-listener","port":"${port}"`)) found.push(`the hub has no listener of ${name}`);
    ports.set(port, name);
  }
  return found;
}

async function story(): Promise<string[]> {
  seen.clear();
  const amiss: string[] = [];
  const user = async (method: string, path: string, expected: number, body?: object) => {
    const status = await fleet.rest(method, path, body);
    if (status !== expected) amiss.push(`${method} ${path}: ${status}`);
    await kills.settled();
  };
  for (const name of ['db', 'log']) await user('POST', '/services', 201, { name, ...host });
  const node = { name: 'spare', archId: 1, routerMode: 'edge', host: 'spare.example' };
  await user('POST', '/node', 201, node);
  await user('POST', '/services', 201, { name: 'ssh', ...host, type: 'agent', resource: 'spare' });
  amiss.push(...(await faults(['db', 'log', 'ssh'])));
  await user('PATCH', '/services/db', 200, { tags: ['all'], servicePort: 81 });
  await user('POST', '/services/log/reconcile', 200);
  const uuid = fleet.stores.nodes.get(NAMESPACE, 'spare')?.status?.uuid;
  await user('DELETE', `/node/${uuid}`, 202);
  amiss.push(...(await faults(['db', 'log'])));
  if (fleet.stores.services.get(NAMESPACE, 'ssh')) amiss.push('ssh outlived its node');
  const config = fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.['skrouterd.json'];
  if (config?.includes('ssh-listener')) amiss.push('the hub listens for ssh');
  return amiss;
}

test(
  'a leader that is killed before or after any write gives each service one port at the hub, and ends services with their nodes',
  async () => {
    const { writes, found } = await kills.everyKill(story);
    expect(found).toEqual([]);
    expect(writes.length).toBeGreaterThan(8);
  },
  process.env.SKERRY_NIGHTLY ? 3_600_000 : 120_000,
);
