import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { busClient, startBusServer, type TestConfig, type TestServer } from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { createRelayHub } from '../../../datastore/relay-hub.ts';
import { busOf, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { accountSecretName, operatorSecretName } from '../../bus-accounts/rules/secret.ts';

/** The controller in memory, whose leader sends tokens to a real server. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const hub = () => fleet.stores.busHubs.list()[0];
const isReady = () => expect.poll(() => bus.readyOf(hub()), { timeout: 10_000 }).toMatchObject({ status: 'True' });
const userOf = (account: string, name: string) => ({
  publicKey: bus.userToken(account, name)?.sub ?? '',
  creds: bus.userTexts(account, name).creds ?? '',
});

/** A server that trusts the operator of the installation, and is its hub. */
async function startHub(): Promise<TestServer> {
  const server = await startTrusting();
  await putHub(server);
  return server;
}

function startTrusting(config: TestConfig = {}): Promise<TestServer> {
  const system = { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' };
  return startBusServer({ operator: bus.texts(operatorSecretName()).token ?? '', system }, config);
}

async function putHub({ serverPort }: Pick<TestServer, 'serverPort'>) {
  const put = await bus.send('PUT', '/bus/hub', { host: '127.0.0.1', serverPort });
  expect(put.status).toBe(200);
}

const refused = async (url: string, user: { publicKey: string; creds: string }) =>
  busClient(url, user).then(
    () => false,
    () => true,
  );

describe('a hub that is named', () => {
  test('gets the tokens of all accounts, and says so', async () => {
    expect((await bus.send('POST', '/application', shopWithBus())).status).toBe(201);
    const server = await startHub();
    await isReady();
    expect(hub()?.status).toMatchObject({ members: 1, current: 1 });
    const [pump, valve] = [userOf('shop', 'pump'), userOf('shop', 'valve')];
    const [from, to] = [await busClient(server.url, pump), await busClient(server.url, valve)];
    const received = to.subscribe('pressure', { max: 1 });
    await to.flush();
    from.publish('pressure', '7 bar');
    for await (const message of received) expect(message.string()).toBe('7 bar');
  });

  test('with TLS for clients gets the tokens by TLS, and so do sessions between replicas', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const serverPort = await freePort();
    await putHub({ serverPort });
    const stored = hub();
    if (!stored) throw new Error('there is no hub');
    fleet.cluster.edit(stored, ({ spec }) => Object.assign(spec, { clientTls: true }));
    const secretName = 'skerry-ca-default-bus-local-ca';
    await expect.poll(() => bus.texts(secretName)['tls.key']).toBeDefined();
    const { 'ca.crt': ca = '', 'tls.crt': cert = '', 'tls.key': key = '' } = bus.texts(secretName);
    const server = await startTrusting({ serverPort, clientTls: await tlsFiles({ ca, pair: { cert, key } }) });
    await isReady();
    await busClient(server.url, userOf('shop', 'pump'), ca);
    const relay = createRelayHub(fleet.stores, { namespace: NAMESPACE });
    expect(relay.servers()).toEqual([`tls://127.0.0.1:${server.serverPort}`]);
    expect(relay.ca()).toBe(ca);
  });

  test('ends the open connection of a microservice within 5 s of the answered call that takes its access', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    await isReady();
    const pump = userOf('shop', 'pump');
    const client = await busClient(server.url, pump);
    const stays = await busClient(server.url, userOf('shop', 'valve'));
    const began = performance.now();
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: false } });
    });
    await client.closed();
    expect(performance.now() - began).toBeLessThan(5_000);
    await expect(busClient(server.url, pump)).rejects.toThrow('Authorization');
    expect(stays.isClosed()).toBe(false);
  });

  test('is not ready while its server is away, and sends it what it missed once it is back', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    await isReady();
    const pump = userOf('shop', 'pump');
    await server.kill();
    await expect
      .poll(() => bus.readyOf(hub()))
      .toMatchObject({ status: 'False', reason: 'BusServersBehind', message: expect.stringContaining('127.0.0.1') });
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: false } });
    });
    await server.start();
    await isReady();
    await expect(busClient(server.url, pump)).rejects.toThrow('Authorization');
  });

  test('undoes no revocation when the datastore is older than its servers: the next token has it again', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    await isReady();
    const pump = userOf('shop', 'pump');
    const client = await busClient(server.url, pump);
    const secrets = [...fleet.stores.secrets.list()].filter(({ metadata }) =>
      metadata.name.startsWith('skerry-bus-account-'),
    );
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: false } });
    });
    await client.closed();
    expect(Object.keys(bus.revoked('shop'))).toEqual([pump.publicKey]);
    // What a backup has of the tokens comes back, and another leader reads it.
    for (const { metadata, data } of secrets) {
      const present = fleet.stores.secrets.get(metadata.namespace, metadata.name);
      if (present && data) await fleet.cluster.client.replace(fleet.stores.secrets.resource, { ...present, data });
    }
    await fleet.nextTerm();
    await isReady();
    await expect.poll(() => Object.keys(bus.revoked('shop'))).toEqual([pump.publicKey]);
    await expect(busClient(server.url, pump)).rejects.toThrow('Authorization');
    await busClient(server.url, userOf('shop', 'valve'));
  });

  test('lets nobody in by keys that the servers trust no longer, and keeps the credentials that they accept', async () => {
    const path = '/bus/accounts/shop/users';
    await bus.send('POST', '/application', shopWithBus());
    for (const name of ['dashboard', 'gone']) await bus.send('POST', path, { name });
    const server = await startHub();
    await isReady();
    const [before, gone] = [userOf('shop', 'dashboard'), userOf('shop', 'gone')];
    const backup = [...fleet.stores.secrets.list()].filter(({ metadata }) =>
      /^skerry-bus-(account|user)-/.test(metadata.name),
    );
    await bus.send('DELETE', `${path}/gone`);
    await bus.refuseMany('shop', 600, { kept: true });
    await expect.poll(() => bus.outdatedOf('shop')?.status, { timeout: 20_000 }).toBe('True');
    await bus.endFormerKey('shop');
    await isReady();
    const present = userOf('shop', 'dashboard');
    await expect.poll(() => refused(server.url, gone), { timeout: 20_000 }).toBe(true);
    expect(bus.revoked('shop')).toEqual({});
    // What a backup has of keys and tokens comes back, and another leader reads it.
    for (const { metadata, data } of backup) {
      const found = fleet.stores.secrets.get(metadata.namespace, metadata.name);
      if (found && data) await fleet.cluster.client.replace(fleet.stores.secrets.resource, { ...found, data });
    }
    await fleet.nextTerm();
    await expect.poll(() => bus.outdatedOf('shop')?.status, { timeout: 20_000 }).toBe('True');
    await isReady();
    for (const user of [gone, before]) expect(await refused(server.url, user)).toBe(true);
    for (const user of [present, userOf('shop', 'dashboard'), userOf('shop', 'pump')])
      await busClient(server.url, user);
    expect(userOf('shop', 'dashboard').creds).not.toBe(present.creds);
  });

  test('refuses what a lost Secret of an account signed, keeps its streams, and lets in who has the credentials that follow', async () => {
    const path = '/bus/accounts/shop/users';
    await bus.send('POST', '/application', shopWithBus());
    for (const name of ['dashboard', 'gone']) await bus.send('POST', path, { name });
    const server = await startHub();
    await isReady();
    const former = [userOf('shop', 'pump'), userOf('shop', 'dashboard'), userOf('shop', 'gone')];
    const open = await busClient(server.url, userOf('shop', 'valve'));
    const streams = await open.jetstreamManager();
    await streams.streams.add({ name: 'ORDERS', subjects: ['orders.>'] });
    await bus.send('DELETE', `${path}/gone`);
    await expect.poll(() => Object.keys(bus.revoked('shop'))).toEqual([former[2]?.publicKey]);
    const before = bus.accountToken('shop');
    const [name] = [...fleet.stores.secrets.list()]
      .map(({ metadata }) => metadata.name)
      .filter((one) => one === accountSecretName(bus.account('shop')?.status?.uuid ?? ''));
    await fleet.cluster.client.delete(fleet.stores.secrets.resource, { namespace: NAMESPACE, name: name ?? '' });
    await expect.poll(() => bus.accountToken('shop')?.iat).toBeGreaterThan(before?.iat ?? Number.NaN);
    expect(bus.accountToken('shop')?.sub).toBe(before?.sub);
    await open.closed();
    for (const user of former) expect(await refused(server.url, user)).toBe(true);
    await isReady();
    for (const user of ['pump', 'dashboard', 'valve']) {
      const client = await busClient(server.url, userOf('shop', user));
      const manager = await client.jetstreamManager();
      expect((await manager.streams.info('ORDERS')).config.subjects).toEqual(['orders.>']);
    }
  });

  test('costs no write and ends no connection when nothing changes, whoever leads', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    await isReady();
    const client = await busClient(server.url, userOf('shop', 'pump'));
    await fleet.settle();
    fleet.cluster.writes.clear();
    await fleet.nextTerm();
    await isReady();
    await fleet.settle();
    expect([...fleet.cluster.writes.keys()].filter((what) => /secrets|accounts|users/.test(what))).toEqual([]);
    await client.flush();
    expect(client.isClosed()).toBe(false);
  });
});

test('replicas reach the hub as the account controller, whose user has the subjects of sessions alone', async () => {
  const server = await startHub();
  await isReady();
  const relay = createRelayHub(fleet.stores, { namespace: NAMESPACE });
  expect(relay.servers()).toEqual([server.url]);
  const client = await busClient(server.url, { publicKey: '', creds: new TextDecoder().decode(relay.credentials()) });
  const refused: string[] = [];
  void (async () => {
    for await (const { data } of client.status()) refused.push(String(data));
  })();
  const received = client.subscribe('controller.relay.v1.exec.s.user', { max: 1 });
  client.publish('controller.relay.v1.exec.s.user', 'join');
  for await (const message of received) expect(message.string()).toBe('join');
  client.publish('other', 'x');
  await expect.poll(() => refused).toEqual(['PERMISSIONS_VIOLATION']);
});

test('a second object of the kind is no hub', async () => {
  const { resource } = fleet.stores.busHubs;
  const made = { apiVersion: 'skerry.dev/v3', kind: resource.kind, metadata: { name: 'other', namespace: 'skerry' } };
  await fleet.cluster.client.create(resource, { ...made, spec: { host: 'a.example' } });
  await fleet.settle();
  expect(bus.readyOf(fleet.stores.busHubs.list().find(({ metadata }) => metadata.name === 'other'))).toMatchObject({
    reason: 'NameTaken',
  });
});
