import { afterEach, beforeAll, expect, test } from 'vitest';
import { NAMESPACE } from '../../../../testing/in-memory-controller.ts';
import { REFUSALS, RefusedWrites } from '../../../../testing/refused-writes.ts';
import { servicesInMemory } from '../_fleet.ts';

/** An API server that refuses the first write of each object by the leader, at each step of the story. */
const on = servicesInMemory(1, { ROUTER_HUB: 'true' });
let refused: RefusedWrites;
beforeAll(() => {
  refused = new RefusedWrites(on.fleet);
});
afterEach(() => refused.end());

const RESOURCES = /^(services|routerhubs|configmaps|deployments|networkpolicies|secrets)\//;
const external = {
  ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};
/** Waits until it is so: attempts that were refused come again after a moment. */
const until = <T>(read: () => T) => expect.poll(read, { timeout: 20_000 });
const hubText = () => on.fleet.stores.configMaps.get(NAMESPACE, 'skerry-router')?.data?.['skrouterd.json'] ?? '';

test.each(REFUSALS)(
  'services and the default router are made, changed and deleted although writes are refused as %s',
  async (_, refusal) => {
    refused.begin(refusal, RESOURCES);
    for (const name of ['db', 'log'])
      expect((await on.send('POST', '/services', { name, ...external })).status).toBe(201);
    await until(() => on.service('db')?.status?.provisioningStatus).toBe('ready');
    await until(() => on.service('log')?.status?.provisioningStatus).toBe('ready');
    const ports = ['db', 'log'].map((name) => on.service(name)?.status?.bridgePort);
    expect(new Set(ports).size).toBe(2);
    await until(hubText).toContain(`"name":"db-listener","port":"${ports[0]}"`);
    // What another writer or the load of the API server causes is no failed attempt.
    expect(on.service('db')?.status?.attempts ?? 0).toBe(0);
    expect((await on.inCluster('db'))?.spec.ports[0]?.targetPort).toBe(ports[0]);

    refused.nextRound();
    await on.send('PATCH', '/services/db', { servicePort: 81, targetPort: 5433 });
    await until(hubText).toContain('"port":"5433"');
    await expect.poll(async () => (await on.inCluster('db'))?.spec.ports[0]?.port, { timeout: 20_000 }).toBe(81);
    await until(() => on.ready('db')).toMatchObject({ status: 'True' });
    expect(on.service('db')?.status?.bridgePort).toBe(ports[0]);

    refused.nextRound();
    const messagingPort = refusal.status + 5_000;
    expect((await on.send('PUT', '/router', { host: 'r.example', messagingPort })).status).toBe(200);
    const portsOfHub = async () => (await on.inCluster('router'))?.spec.ports.map(({ port }) => port);
    await expect.poll(portsOfHub, { timeout: 20_000 }).toContain(messagingPort);
    await until(hubText).toContain(String(messagingPort));

    refused.nextRound();
    // A delete has no field manager: one of the two that are refused is the user's own.
    for (const name of ['db', 'log'])
      await expect
        .poll(async () => (await on.send('DELETE', `/services/${name}`)).status, { timeout: 20_000 })
        .toBe(404);
    await until(() => hubText().match(/"(db|log)-listener"/g)).toBeNull();
    expect(refused.count).toBeGreaterThan(4);
  },
  120_000,
);
