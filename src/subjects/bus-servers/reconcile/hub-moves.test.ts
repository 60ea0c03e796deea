import { afterAll, beforeAll, expect, test } from 'vitest';
import { startBusServer } from '../../../../testing/bus.ts';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { refOf } from '../../../kube/mod.ts';
import { BUS_MOVE } from '../../../rules/bus-clients.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { busOf, entryWithBus } from '../../bus-accounts/_fleet.ts';
import { operatorSecretName } from '../../bus-accounts/rules/secret.ts';
import { RESOURCES } from '../../kinds.ts';

/** Nodes without bus servers, whose containers reach a hub elsewhere. */
const NODES = 20;
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(NODES, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const bus = busOf(() => fleet);
const hub = () => fleet.stores.busHubs.list()[0];
const until = (what: () => unknown) => expect.poll(what, { timeout: 10_000 });
/** How many containers have which server. */
function servers(): Record<string, number> {
  const counts: Record<string, number> = {};
  for (let i = 0; i < NODES; i++)
    for (const view of fleet.desired(nodeUuid(fleet.node(i)))?.microservices ?? []) {
      const url = 'env' in view ? view.env?.find(({ key }) => key === 'BUS_SERVER_URL')?.value : undefined;
      if (url !== undefined) counts[url] = (counts[url] ?? 0) + 1;
    }
  return counts;
}
/** Another leader continues half a minute later. */
async function step() {
  fleet.time.now += BUS_MOVE.stepMs;
  await fleet.nextTerm();
  await until(() => hub()?.status?.current).toBe(1);
  await fleet.settle();
}

test('another address of the hub replaces no container at once, a few with each step, and none while its server is away', async () => {
  for (let i = 0; i < NODES; i++)
    expect((await bus.send('PATCH', `/node/${nodeUuid(fleet.node(i))}`, { busMode: 'none' })).status).toBeLessThan(300);
  const system = { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' };
  const server = await startBusServer({ operator: bus.texts(operatorSecretName()).token ?? '', system });
  const put = (host: string) => bus.send('PUT', '/bus/hub', { host, serverPort: server.serverPort });
  const urlOf = (host: string) => `nats://${host}:${server.serverPort}`;
  expect((await put('127.0.0.1')).status).toBe(200);
  const microservices = Array.from({ length: NODES }, (_, i) => entryWithBus(`m${i}`, { agentName: `gateway-${i}` }));
  const made = await bus.send('POST', '/application', { name: 'shop', busConfig: { busAccess: true }, microservices });
  expect(made.status).toBe(201);
  await until(servers).toEqual({ [urlOf('127.0.0.1')]: NODES });

  // A mistake: nothing answers there.
  expect((await put('127.0.0.2')).status).toBe(200);
  for (let i = 0; i < 3; i++) {
    fleet.time.now += BUS_MOVE.stepMs;
    await fleet.nextTerm();
    await fleet.settle();
  }
  expect(servers()).toEqual({ [urlOf('127.0.0.1')]: NODES });

  expect((await put('localhost')).status).toBe(200);
  await until(() => bus.readyOf(hub())).toMatchObject({
    reason: 'BusHubMoves',
    message: expect.stringContaining(
      `0% of the nodes reach it at localhost:${server.serverPort}, the others at 127.0.0.1:`,
    ),
  });
  const moves = () => fleet.events.filter(({ of, reason }) => of === 'BusHub bus-hub' && reason === 'BusHubMoves');
  expect(moves()).toMatchObject([{ type: 'Warning', note: expect.stringContaining('containers on nodes without') }]);
  let before = 0;
  let largest = 0;
  for (let i = 0; i < 10; i++) {
    await step();
    const moved = servers()[urlOf('localhost')] ?? 0;
    expect(moved).toBeGreaterThanOrEqual(before);
    largest = Math.max(largest, moved - before);
    before = moved;
  }
  expect(largest).toBeLessThan(NODES / 2);
  expect(servers()).toEqual({ [urlOf('localhost')]: NODES });
  expect(bus.readyOf(hub())).toMatchObject({ status: 'True' });
}, 120_000);

test('applications are reconciled when the hub is reached otherwise, and not when its status says other things of its servers', async () => {
  // An example address (RFC 5737), where nothing answers.
  expect((await bus.send('PUT', '/bus/hub', { host: '192.0.2.1' })).status).toBe(200);
  const readWith = async (status: Partial<BusHub['status']>) => {
    fleet.objectsRead.clear();
    const patch = { type: 'merge' as const, body: { status } };
    await fleet.cluster.client.patch(RESOURCES.busHubs, refOf(hub() as BusHub), patch, { subresource: 'status' });
    await fleet.settle();
    return [...fleet.objectsRead.keys()].filter((what) => what === 'applications.byIndex bus');
  };
  const other = await readWith({ answering: 7, current: 7, trusted: [] });
  expect(other).toEqual([]);
  for (const status of [{ clients: { host: 'hub.plant.example', port: 4222 } }, { clientTls: true }])
    expect(await readWith(status), JSON.stringify(status)).toEqual(['applications.byIndex bus']);
}, 60_000);
