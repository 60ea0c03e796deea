import type { NatsConnection } from 'nats';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { atEnd } from '../../../testing/at-end.ts';
import { busClient, startBusServer, type TestServer } from '../../../testing/bus.ts';
import { type InMemoryController, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import { type BusConnection, connectBus } from '../../bus-client/connection.ts';
import { decodeData } from '../../datastore/keyed-text.ts';
import { busOf, entryWithBus, shopWithBus } from './_fleet.ts';
import { trustedOperators } from './rules/operator.ts';
import { BUS_KEYS, operatorSecretName } from './rules/secret.ts';

/**
 * Events of applications end at a client: the controller in memory signs, a real nats-server gets its tokens by push, and clients with
 * the credentials of microservices are let in, stopped or disconnected.
 */
let fleet: InMemoryController;
let server: TestServer;
let system: BusConnection;
const bus = busOf(() => fleet);
const signal = () => AbortSignal.timeout(20_000);

beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  await fleet.settle();
  const account = () => bus.accountTexts('SYS').token ?? '';
  server = await startBusServer({
    operator: bus.texts(operatorSecretName()).token ?? '',
    system: { publicKey: bus.accountToken('SYS')?.sub ?? '', token: account },
  } as never);
  const creds = bus.userTexts('SYS', 'admin-hub').creds ?? '';
  system = await connectBus({ servers: [server.url], creds, name: 'test', signal: signal() });
}, 120_000);
afterAll(async () => {
  await system?.close();
  await fleet[Symbol.asyncDispose]();
});
beforeEach(async () => {
  // Accounts of the system stay: the server knows their keys.
  for (const name of ['shop', 'other']) await bus.send('DELETE', `/application/${name}`);
});

/** Sends all tokens to the server, as the leader does. */
async function deliver() {
  for (const { data } of fleet.stores.secrets.byIndex('bus', 'account')) {
    const token = decodeData(data)[BUS_KEYS.token];
    if (token) await system.push(token, signal());
  }
}
/** Lets the time pass after which former keys end without a machine. */
async function endFormerKeys() {
  fleet.time.now += 3_000;
  await fleet.nextTerm();
}
const credsOf = (user: string, account = 'shop') => ({
  publicKey: '',
  creds: bus.userTexts(account, user).creds ?? '',
});
const connected = (user: { publicKey: string; creds: string }) => busClient(server.url, user);
const refused = (user: { publicKey: string; creds: string }) => expect(connected(user)).rejects.toThrow();
const isClosed = (client: NatsConnection) => expect(client.closed()).resolves.toBeDefined();
const hears = async (listener: NatsConnection, speaker: NatsConnection, subject: string): Promise<boolean> => {
  const subscription = listener.subscribe(subject, { max: 1 });
  await listener.flush();
  speaker.publish(subject);
  await speaker.flush();
  await listener.flush();
  subscription.unsubscribe();
  return subscription.getReceived() > 0;
};
async function createShop(changes: object = {}) {
  expect((await bus.send('POST', '/application', shopWithBus(changes))).status).toBe(201);
  await deliver();
}
const edit = async (change: Parameters<typeof bus.edit>[1]) => {
  await bus.edit('shop', change);
  await deliver();
};

test('microservices of one application hear each other, and another application hears nothing', async () => {
  await createShop();
  await bus.send('POST', '/application', { ...shopWithBus(), name: 'other', microservices: [entryWithBus('spy')] });
  await deliver();
  const [pump, valve, spy] = [
    await connected(credsOf('pump')),
    await connected(credsOf('valve')),
    await connected(credsOf('spy', 'other')),
  ];
  expect(await hears(valve, pump, 'orders.new')).toBe(true);
  expect(await hears(spy, pump, 'orders.new')).toBe(false);
});

describe('credentials of a microservice', () => {
  test('end with its access: its connection as well, and no other', async () => {
    await createShop();
    const old = credsOf('pump');
    const [pump, valve] = [await connected(old), await connected(credsOf('valve'))];
    await edit((spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: false } });
    });
    await isClosed(pump);
    await refused(old);
    expect(valve.isClosed()).toBe(false);
  });

  test('are others with another rule, and the former ones are refused', async () => {
    await createShop();
    await bus.send('POST', '/bus/user-rules', { name: 'quiet', pubDeny: ['>'] });
    const old = credsOf('pump');
    const pump = await connected(old);
    await edit((spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'quiet' } });
    });
    // Until its machine has the new credentials it works on with the former ones.
    const again = await connected(credsOf('pump'));
    expect(pump.isClosed()).toBe(false);
    await endFormerKeys();
    await deliver();
    await isClosed(pump);
    await refused(old);
    expect(await hears(await connected(credsOf('valve')), again, 'orders.new')).toBe(false);
  });

  test('stay the same on another node, and so does its connection', async () => {
    await createShop();
    const pump = await connected(credsOf('pump'));
    const before = bus.userTexts('shop', 'pump');
    await edit((spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { agent: { name: 'gateway-1' } });
    });
    expect(bus.userTexts('shop', 'pump')).toEqual(before);
    expect(pump.isClosed()).toBe(false);
  });
});

describe('connections of an application', () => {
  test('stay with another rule of its account, as many as the rule allows', async () => {
    await createShop();
    await bus.send('POST', '/bus/account-rules', { name: 'tiny', maxConnections: 1 });
    const pump = await connected(credsOf('pump'));
    await edit((spec) => {
      spec.busConfig = { busAccess: true, busRule: 'tiny' };
    });
    expect(pump.isClosed()).toBe(false);
    await expect(connected(credsOf('valve'))).rejects.toThrow();
  });

  test.each([
    [
      'end with its access',
      () =>
        edit((spec) => {
          spec.busConfig = { busAccess: false };
        }),
    ],
    [
      'end with its deletion',
      async () => {
        await bus.send('DELETE', '/application/shop');
        await deliver();
      },
    ],
  ])('%s, and connections of further users do', async (_, end) => {
    await createShop();
    await bus.send('POST', '/bus/accounts/shop/users', { name: 'dashboard' });
    const users = ['pump', 'valve', 'dashboard'].map((name) => credsOf(name));
    const clients = await Promise.all(users.map(connected));
    await end();
    for (const client of clients) await isClosed(client);
    for (const user of users) await refused(user);
  });
});

test('streams of an account that ends stay on the server, also through a restart, and no other account has them', async () => {
  await createShop();
  const key = bus.accountToken('shop')?.sub ?? '';
  const pump = await connected(credsOf('pump'));
  await (await pump.jetstreamManager()).streams.add({ name: 'orders', subjects: ['orders.>'] });
  await pump.jetstream().publish('orders.new', 'kept');
  const stored = async () => {
    const query = `acc=${key}&streams=true`;
    const { account_details: accounts = [] } = (await (
      await fetch(`http://127.0.0.1:${server.monitorPort}/jsz?${query}`)
    ).json()) as { account_details?: { stream_detail?: { name: string; state: { messages: number } }[] }[] };
    return accounts.flatMap(({ stream_detail: streams = [] }) => streams.map((one) => [one.name, one.state.messages]));
  };
  expect(await stored()).toEqual([['orders', 1]]);
  await edit((spec) => {
    spec.busConfig = { busAccess: false };
  });
  await isClosed(pump);
  expect(bus.account('shop')).toBeUndefined();
  expect(await stored()).toEqual([['orders', 1]]);
  await edit((spec) => {
    spec.busConfig = { busAccess: true };
  });
  await system.close();
  await server.kill();
  await server.start();
  const creds = bus.userTexts('SYS', 'admin-hub').creds ?? '';
  system = await connectBus({ servers: [server.url], creds, name: 'test', signal: signal() });
  await deliver();
  const again = await connected(credsOf('pump'));
  expect(await (await again.jetstreamManager()).streams.names().next()).toEqual([]);
  expect(await stored()).toEqual([['orders', 1]]);
});

test('a deleted user is disconnected and refused, and one of its name that is created again is let in', async () => {
  await createShop();
  const path = '/bus/accounts/shop/users';
  await bus.send('POST', path, { name: 'dashboard' });
  const old = credsOf('dashboard');
  const client = await connected(old);
  await bus.send('DELETE', `${path}/dashboard`);
  await deliver();
  await isClosed(client);
  await refused(old);
  await bus.send('POST', path, { name: 'dashboard' });
  await connected(credsOf('dashboard'));
});

test('another signing key ends a long list of revocations, and whoever has the new credentials connects', async () => {
  await createShop();
  await bus.send('POST', '/bus/accounts/shop/users', { name: 'dashboard' });
  await bus.send('POST', '/bus/accounts/shop/users', { name: 'gone' });
  const [gone, old, lost] = [credsOf('gone'), credsOf('pump'), credsOf('valve')];
  await bus.send('DELETE', '/bus/accounts/shop/users/gone');
  const key = bus.userToken('shop', 'pump')?.sub;
  await bus.refuseMany('shop', 600);
  await edit((spec) => {
    spec.microservices = spec.microservices?.filter(({ name }) => name !== 'valve');
  });
  expect(Object.keys(bus.revoked('shop')).length).toBeGreaterThan(600);
  expect(bus.userToken('shop', 'pump')?.sub).toBe(key);
  await endFormerKeys();
  await expect.poll(() => Object.keys(bus.revoked('shop')).length, { timeout: 20_000 }).toBe(2);
  await deliver();
  await connected(credsOf('pump'));
  await connected(credsOf('dashboard'));
  for (const user of [gone, old, lost]) await refused(user);
});

describe('a long list of revoked users with credentials in their own hands', () => {
  const path = '/bus/accounts/shop/users';
  /** An account that refuses 600 of them and has another key since. */
  async function withFormerKey() {
    await createShop();
    for (const name of ['dashboard', 'gone']) await bus.send('POST', path, { name });
    const [before, gone] = [credsOf('dashboard'), credsOf('gone')];
    await bus.send('DELETE', `${path}/gone`);
    await bus.refuseMany('shop', 600, { kept: true });
    await expect.poll(() => bus.outdatedOf('shop')?.status, { timeout: 20_000 }).toBe('True');
    await deliver();
    return { before, gone };
  }

  test('ends with the key that signed them, by an order, and who fetched other credentials before stays connected', async () => {
    const { before, gone } = await withFormerKey();
    const now = credsOf('dashboard');
    expect(now.creds).not.toBe(before.creds);
    const [outdated, renewed, pump] = [await connected(before), await connected(now), await connected(credsOf('pump'))];
    await refused(gone);
    await bus.endFormerKey('shop');
    await deliver();
    await outdated.closed();
    for (const user of [before, gone]) await refused(user);
    await connected(now);
    expect([renewed.isClosed(), pump.isClosed()]).toEqual([false, false]);
    expect([bus.revoked('shop'), bus.outdatedOf('shop')]).toEqual([{}, undefined]);
  });

  test('stays with an order that names no former key, and so do the credentials of everybody', async () => {
    const { before, gone } = await withFormerKey();
    const present = bus.account('shop');
    if (present)
      fleet.cluster.edit(present, ({ spec }) => {
        spec.endedKey = bus.accountToken('shop')?.sub;
      });
    await fleet.settle();
    await deliver();
    await connected(before);
    await refused(gone);
    expect(Object.keys(bus.revoked('shop')).length).toBeGreaterThan(600);
  });

  test('ends by itself at a bound, whoever holds credentials of the former key', async () => {
    const { before, gone } = await withFormerKey();
    const [outdated, renewed] = [await connected(before), await connected(credsOf('dashboard'))];
    await bus.refuseMany('shop', 1_500, { kept: true, first: 'UB' });
    await expect.poll(() => Object.keys(bus.revoked('shop')).length, { timeout: 20_000 }).toBe(1_500);
    await deliver();
    await outdated.closed();
    for (const user of [before, gone]) await refused(user);
    expect(renewed.isClosed()).toBe(false);
  });
});

test('nobody is disconnected by reconciles that change nothing, a new leader, or an edit of something else', async () => {
  await createShop();
  const [pump, valve] = [await connected(credsOf('pump')), await connected(credsOf('valve'))];
  await fleet.nextTerm();
  await deliver();
  await edit((spec) => {
    spec.description = 'other';
  });
  expect([pump.isClosed(), valve.isClosed()]).toEqual([false, false]);
  expect(await hears(valve, pump, 'orders.new')).toBe(true);
});

test('a server that trusts both keys of a rotation takes tokens of either, and users keep their credentials', async () => {
  await createShop();
  const before = {
    account: bus.accountTexts('shop').token ?? '',
    pump: credsOf('pump'),
    admin: credsOf('admin-hub', 'SYS'),
  };
  const former = { operator: bus.texts(operatorSecretName()).token ?? '', system: bus.accountTexts('SYS').token ?? '' };
  await bus.send('POST', '/bus/operator/rotate');
  const both = trustedOperators(bus.texts(operatorSecretName()));
  expect(both).toHaveLength(2);
  const publicKey = bus.accountToken('SYS')?.sub ?? '';
  const started = { operator: former.operator, system: { publicKey, token: () => former.system } } as never;
  const other = await startBusServer(started, { operators: both });
  const admin = await connectBus({ servers: [other.url], creds: before.admin.creds, name: 'test', signal: signal() });
  atEnd(() => admin.close());
  await admin.push(before.account, signal());
  const pump = await busClient(other.url, before.pump);
  fleet.time.now += 11 * 60_000;
  await fleet.nextTerm();
  await expect.poll(() => bus.accountTexts('shop').token, { timeout: 20_000 }).not.toBe(before.account);
  await admin.push(bus.accountTexts('shop').token ?? '', signal());
  expect(pump.isClosed()).toBe(false);
  await busClient(other.url, credsOf('pump'));
  expect(credsOf('pump')).toEqual(before.pump);
});
