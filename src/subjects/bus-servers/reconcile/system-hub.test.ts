import { afterAll, beforeAll, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { startBusServer } from '../../../../testing/bus.ts';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { createRelayHub } from '../../../datastore/relay-hub.ts';
import { busOf } from '../../bus-accounts/_fleet.ts';
import { operatorSecretName } from '../../bus-accounts/rules/secret.ts';

/** An installation without a cluster: the server of its first node of the system is the hub. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true', CONTROL_PLANE: 'remote' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const bus = busOf(() => fleet);
const hub = () => fleet.stores.busHubs.list()[0];
const until = (what: () => unknown) => expect.poll(what, { timeout: 10_000 });
const serverOf = (port: number) => {
  const system = { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' };
  return startBusServer({ operator: bus.texts(operatorSecretName()).token ?? '', system }, { serverPort: port });
};

test('the server of a node of the system is the hub by itself, follows the node, and gives way to a hub that is named', async () => {
  await fleet.settle();
  expect(hub()).toBeUndefined();
  const [first, second, named] = [await freePort(), await freePort(), await freePort()];
  await serverOf(first);
  const node = {
    name: 'central',
    archId: 1,
    isSystem: true,
    host: '127.0.0.1',
    busServerPort: first,
    busLeafPort: 7000,
  };
  const made = await bus.send('POST', '/node', node);
  expect(made.status).toBe(201);
  await until(() => bus.readyOf(hub())).toMatchObject({ status: 'True' });
  expect(hub()?.spec).toEqual({});
  expect(hub()?.status).toMatchObject({ host: '127.0.0.1', serverPort: first, leafPort: 7000, members: 1, current: 1 });
  const shown = { host: '127.0.0.1', serverPort: first, leafPort: 7000 };
  expect((await bus.send('GET', '/bus/hub')).body).toMatchObject(shown);

  expect(createRelayHub(fleet.stores, { namespace: NAMESPACE }).servers()).toEqual([`nats://127.0.0.1:${first}`]);

  await serverOf(second);
  const uuid = (made.body as { uuid: string }).uuid;
  expect((await bus.send('PATCH', `/node/${uuid}`, { busServerPort: second })).status).toBe(204);
  await until(() => hub()?.status?.serverPort).toBe(second);
  await until(() => bus.readyOf(hub())).toMatchObject({ status: 'True' });

  await serverOf(named);
  expect((await bus.send('PUT', '/bus/hub', { host: 'localhost', serverPort: named })).status).toBe(200);
  await until(() => bus.readyOf(hub())).toMatchObject({ status: 'True' });
  expect((await bus.send('GET', '/bus/hub')).body).toMatchObject({
    host: 'localhost',
    serverPort: named,
    leafPort: 7422,
  });
});
