import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { API_VERSION } from '../../../api/names.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { busOf, shopWithBus } from '../_fleet.ts';
import { operatorSecretName } from '../rules/secret.ts';

/** The routes of the message bus over the whole controller in memory, whose leader signs. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true', EVENT_AUDIT_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await fleet.reset();
  await fleet.settle();
});

const bus = busOf(() => fleet);
const send = (method: string, path: string, body?: object, token = 'admin') =>
  fleet.request(method, path, { token, ...(body && { body }) });
const createShop = (changes?: object) => bus.send('POST', '/application', shopWithBus(changes));
const USERS = '/bus/accounts/shop/users';
const MQTT = '/bus/accounts/shop/mqtt-bearer';
const text = (base64: unknown) => Buffer.from(String(base64), 'base64').toString();

describe('accounts', () => {
  test('are listed with the applications that they are for', async () => {
    await createShop();
    const { body } = await send('GET', '/bus/accounts');
    expect((body.accounts as { name: string }[]).map(({ name }) => name)).toEqual([
      'SYS',
      'SYS-leaf-gateway-0',
      'SYS-leaf-gateway-1',
      'controller',
      'shop',
    ]);
    expect((await send('GET', '/bus/accounts/shop')).body).toEqual({
      id: expect.any(Number),
      name: 'shop',
      publicKey: bus.accountToken('shop')?.sub,
      jwt: bus.accountTexts('shop').token,
      isSystem: false,
      isLeafSystem: false,
      applicationId: fleet.stores.applications.byIndex('name', 'shop')[0]?.status?.id,
    });
    expect(await send('GET', '/nats/accounts/nothing')).toMatchObject({
      status: 404,
      body: { code: 'BUS_ACCOUNT_NOT_FOUND' },
    });
  });

  test('are given to an application that has none, and returned to others as they are', async () => {
    await createShop({ busConfig: undefined, microservices: [] });
    const first = await send('POST', '/bus/accounts/shop');
    expect(first).toMatchObject({ status: 201, body: { name: 'shop', publicKey: expect.stringMatching(/^A/) } });
    await fleet.settle();
    expect((await send('POST', '/bus/accounts/shop', {})).body).toEqual(first.body);
    expect(await send('POST', '/bus/accounts/nothing')).toMatchObject({
      status: 404,
      body: { code: 'INVALID_APPLICATION_NAME' },
    });
  });

  test('asked for over REST stay until their application asks and asks no more, or ends', async () => {
    await createShop({ busConfig: undefined, microservices: [] });
    await send('POST', '/bus/accounts/shop');
    const key = bus.accountToken('shop')?.sub;
    await fleet.nextTerm();
    expect(bus.accountToken('shop')?.sub).toBe(key);
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: true };
    });
    expect(bus.accountToken('shop')?.sub).toBe(key);
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    expect(bus.account('shop')).toBeUndefined();
    await send('POST', '/bus/accounts/shop');
    await bus.send('DELETE', '/application/shop');
    expect(bus.account('shop')).toBeUndefined();
  });

  test('are not given by names of the system: 400', async () => {
    for (const name of ['SYS', 'controller', 'SYS-leaf-gateway-0'])
      expect(await send('POST', `/bus/accounts/${name}`)).toMatchObject({
        status: 400,
        body: { code: 'BUS_NAME_TAKEN' },
      });
  });
});

test('no application is called as an account of the system while the bus is on: 400', async () => {
  expect(await bus.send('POST', '/application', { name: 'controller' })).toMatchObject({
    status: 400,
    body: { code: 'BUS_NAME_TAKEN', message: expect.stringMatching(/^name: "controller"/) },
  });
  // An application of that name, created with kubectl, runs and has no access.
  const { resource } = fleet.stores.applications;
  const metadata = { name: 'controller', namespace: NAMESPACE };
  const entry = {
    name: 'pump',
    agent: { name: 'gateway-0' },
    images: { amd64: 'a:1' },
    busConfig: { busAccess: true },
  };
  const spec = { busConfig: { busAccess: true }, microservices: [entry] };
  const object = { apiVersion: API_VERSION, kind: resource.kind, metadata, spec };
  await fleet.cluster.client.create(resource, object as never);
  await fleet.settle();
  expect(bus.account('controller')?.spec.system).toBe('controller');
  expect(bus.users('controller')).toEqual(['controller']);
  const stored = fleet.stores.applications.byIndex('name', 'controller')[0];
  expect(stored?.status?.conditions?.find(({ type }) => type === 'NotSupportedYet')).toMatchObject({
    status: 'True',
    message: expect.stringContaining('"controller" is an account of the system'),
  });
});

describe('users', () => {
  test('are created with a key of their own, and once: the same name is the same user', async () => {
    await createShop();
    const first = await send('POST', USERS, { name: 'Pump 7 / Süd', expiresIn: '2d' });
    expect(first).toMatchObject({
      status: 201,
      body: { name: 'Pump 7 / Süd', publicKey: expect.stringMatching(/^U/), isBearer: false },
    });
    const token = bus.decode(String(first.body.jwt));
    expect(token?.exp).toBe(Math.floor(fleet.time.now / 1_000) + 2 * 24 * 3_600);
    expect(token?.nats.issuer_account).toBe(bus.accountToken('shop')?.sub);
    fleet.time.now += 3 * 24 * 3_600_000;
    expect((await send('POST', USERS, { name: 'Pump 7 / Süd' })).body).toEqual(first.body);
    await fleet.nextTerm();
    expect(bus.readyOf(bus.user('shop', 'Pump 7 / Süd'))).toMatchObject({ status: 'False', reason: 'BusUserExpired' });
  });

  test.each(['0h', '1', '36001d', '37m', '1095', '26281h', 'd', '-1d', '1w'])(
    'do not last %s: 400',
    async (expiresIn) => {
      await createShop();
      expect(await send('POST', USERS, { name: 'x', expiresIn })).toMatchObject({
        status: 400,
        body: { message: expect.stringMatching(/expiresIn/) },
      });
    },
  );

  test('are deleted and revoked, and a later one of the name has another key', async () => {
    await createShop();
    const first = await send('POST', USERS, { name: 'x' });
    expect((await send('DELETE', `${USERS}/x`)).status).toBe(204);
    await fleet.settle();
    expect(Object.keys(bus.revoked('shop'))).toEqual([first.body.publicKey]);
    expect((await send('DELETE', `${USERS}/x`)).status).toBe(404);
    expect((await send('POST', USERS, { name: 'x' })).body.publicKey).not.toBe(first.body.publicKey);
  });

  test('stay while their microservice asks for them, and users of the system always: 400', async () => {
    await createShop();
    expect(await send('DELETE', `${USERS}/pump`)).toMatchObject({
      status: 400,
      body: { code: 'BUS_USER_IN_USE', message: expect.stringContaining('microservice shop/pump') },
    });
    for (const path of [`${USERS}/leaf-gateway-0`, '/bus/accounts/SYS/users/admin-hub'])
      expect(await send('DELETE', path)).toMatchObject({ status: 400, body: { code: 'BUS_USER_OF_SYSTEM' } });
  });

  test('are listed with their accounts and microservices', async () => {
    await createShop();
    const { body } = await send('GET', '/bus/users');
    const users = body.users as Record<string, unknown>[];
    expect(users.find(({ name }) => name === 'pump')).toMatchObject({
      accountName: 'shop',
      applicationName: 'shop',
      microserviceUuid: bus.user('shop', 'pump')?.spec.microserviceUuid,
      isSystem: false,
    });
    expect(users.find(({ name }) => name === 'admin-hub')).toMatchObject({ isSystem: true, microserviceUuid: null });
    const ofShop = (await send('GET', USERS)).body.users as { name: string }[];
    expect(ofShop.map(({ name }) => name)).toEqual(['leaf-gateway-0', 'pump', 'valve']);
  });

  test('need an account: 404', async () => {
    expect((await send('POST', '/bus/accounts/nothing/users', { name: 'x' })).status).toBe(404);
    expect((await send('GET', '/bus/accounts/nothing/users')).status).toBe(404);
  });

  test('are not added to accounts of the system: 400', async () => {
    for (const account of ['SYS', 'controller'])
      expect(await send('POST', `/bus/accounts/${account}/users`, { name: 'x' }, 'developer')).toMatchObject({
        status: 400,
        body: { code: 'BUS_USER_OF_SYSTEM' },
      });
  });
});

describe('credentials', () => {
  test('are a file with token and seed, for who may read credentials', async () => {
    await createShop();
    const path = `${USERS}/pump/creds`;
    const { body } = await send('GET', path, undefined, 'sre');
    expect(text(body.credsBase64)).toContain(bus.userTexts('shop', 'pump').token);
    for (const role of ['developer', 'viewer']) expect((await send('GET', path, undefined, role)).status).toBe(403);
  });

  test.each([
    ['SYS', 'admin-hub'],
    ['controller', 'controller'],
    ['SYS-leaf-gateway-0', 'admin-leaf-gateway-0'],
    ['shop', 'leaf-gateway-0'],
  ])('for %s/%s are shown to who may read bootstrap data', async (account, user) => {
    await createShop();
    const path = `/bus/accounts/${account}/users/${user}/creds`;
    expect((await send('GET', path, undefined, 'sre')).status).toBe(403);
    expect((await send('GET', path)).status).toBe(200);
  });

  test('are in the audit log, granted or not', async () => {
    const deps = createMemoryDependencies();
    const client = await serveInMemory({ deps });
    await client.as('sre').get(`${USERS}/pump/creds`);
    await client.as('sre').get('/bus/bootstrap');
    await expect
      .poll(async () => (await deps.audit.read({ limit: 10, offset: 0 }, AbortSignal.timeout(10_000))).events)
      .toMatchObject([
        { actorId: 'sre', resourceType: 'busbootstraps', statusCode: 403 },
        { actorId: 'sre', resourceType: 'bususers/creds', resourceId: 'shop/pump', statusCode: 404 },
      ]);
  });
});

describe('tokens in replies', () => {
  test('show the system’s accounts to who may read bootstrap data', async () => {
    const jwtFor = async (role: string) => (await send('GET', '/bus/accounts/SYS', undefined, role)).body.jwt;
    expect(await jwtFor('admin')).toBe(bus.accountTexts('SYS').token);
    for (const role of ['sre', 'developer', 'viewer']) expect(await jwtFor(role)).toBeNull();
  });

  test('have no passwords in lists, and show them again to who may read credentials', async () => {
    await createShop();
    const body = { name: 'meter' };
    const created = await send('POST', MQTT, body, 'developer');
    expect(created).toMatchObject({ status: 201, body: { isBearer: true, jwt: expect.stringMatching(/^ey/) } });
    const claims = bus.decode(String(created.body.jwt));
    expect(claims?.nats).toMatchObject({ bearer_token: true });
    expect(claims?.nats.allowed_connection_types).toContain('MQTT');
    const users = (await send('GET', USERS)).body.users as { name: string; jwt: unknown }[];
    expect(users.find(({ name }) => name === 'meter')?.jwt).toBeNull();
    expect((await send('POST', MQTT, body, 'developer')).body.jwt).toBeNull();
    expect((await send('POST', MQTT, body, 'sre')).body.jwt).toBe(created.body.jwt);
  });

  test('end for users of MQTT by their own route, which ends no others', async () => {
    await createShop();
    await send('POST', MQTT, { name: 'meter' });
    await send('POST', USERS, { name: 'plain' });
    expect(await send('DELETE', `${MQTT}/plain`)).toMatchObject({ status: 400, body: { code: 'BUS_USER_NOT_BEARER' } });
    expect((await send('DELETE', `${MQTT}/meter`)).status).toBe(204);
    await fleet.settle();
    expect(Object.keys(bus.revoked('shop'))).toHaveLength(1);
  });
});

describe('users of MQTT', () => {
  test.each([
    ['maxConnections', { maxConnections: 3 }, 'diskStorage'],
    ['disallowBearer', { diskStorage: -1, disallowBearer: true }, 'disallowBearer'],
  ])('need a rule of the account that lets them in, which says %s', async (name, rule, field) => {
    await send('POST', '/bus/account-rules', { name, ...rule });
    await createShop({ busConfig: { busAccess: true, busRule: name } });
    expect(await send('POST', MQTT, { name: 'meter' })).toMatchObject({
      status: 400,
      body: { message: expect.stringMatching(`^${field}: the rule "${name}"`) },
    });
    const { resource } = fleet.stores.busUsers;
    const metadata = { name: 'meter', namespace: NAMESPACE };
    const spec = { account: 'shop', isBearer: true };
    await fleet.cluster.client.create(resource, {
      apiVersion: API_VERSION,
      kind: resource.kind,
      metadata,
      spec,
    } as never);
    await fleet.settle();
    expect(bus.readyOf(bus.user('shop', 'meter'))).toMatchObject({ status: 'False', reason: 'BusMqttNotPossible' });
  });
});

describe('users of MQTT that exist', () => {
  const reason = () => bus.readyOf(bus.user('shop', 'meter'))?.reason;
  const isReady = () => bus.readyOf(bus.user('shop', 'meter'))?.status;
  const use = (busRule: string | undefined) =>
    bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: true, ...(busRule && { busRule }) };
    });
  test('are judged again when the rule of their account is edited, deleted, or replaced by another one', async () => {
    const store = { name: 'stores', diskStorage: -1 };
    await send('POST', '/bus/account-rules', store);
    await createShop({ busConfig: { busAccess: true, busRule: 'stores' } });
    await send('POST', MQTT, { name: 'meter' });
    await fleet.settle();
    expect(isReady()).toBe('True');
    const before = bus.userTexts('shop', 'meter');
    const steps: [() => Promise<unknown>, string | undefined][] = [
      [() => send('PATCH', '/bus/account-rules/stores', { disallowBearer: true }), 'BusMqttNotPossible'],
      [() => send('PATCH', '/bus/account-rules/stores', { disallowBearer: false }), undefined],
      [() => send('PATCH', '/bus/account-rules/stores', { diskStorage: 0, memStorage: 0 }), 'BusMqttNotPossible'],
      [() => send('DELETE', '/bus/account-rules/stores'), undefined],
      [() => send('POST', '/bus/account-rules', { ...store, disallowBearer: true }), 'BusMqttNotPossible'],
      [() => use(undefined), undefined],
      [() => use('stores'), 'BusMqttNotPossible'],
    ];
    for (const [i, [step, wanted]] of steps.entries()) {
      await step();
      await fleet.settle();
      expect([i, isReady()]).toEqual([i, wanted ? 'False' : 'True']);
      if (wanted) expect([i, reason()]).toEqual([i, wanted]);
    }
    // What the rule of the account says concerns no token of a user.
    expect(bus.userTexts('shop', 'meter')).toEqual(before);
  });
});

describe('rules in bodies', () => {
  test.each([
    ['POST', '/bus/accounts/shop', { busRule: 'nothing' }, 'BUS_ACCOUNT_RULE_NOT_FOUND'],
    ['POST', USERS, { name: 'x', busRule: 'nothing' }, 'BUS_USER_RULE_NOT_FOUND'],
    ['POST', MQTT, { name: 'x', busRule: 'nothing' }, 'BUS_USER_RULE_NOT_FOUND'],
  ])('have to exist: %s %s', async (method, path, body, code) => {
    await createShop();
    expect(await send(method, path, body)).toMatchObject({ status: 404, body: { code } });
  });

  test('bind an account that an application asks for by its busConfig', async () => {
    await send('POST', '/bus/account-rules', { name: 'small', maxConnections: 3 });
    await createShop();
    expect((await send('POST', '/bus/accounts/shop', { busRule: 'small' })).status).toBe(201);
    await fleet.settle();
    expect(fleet.stores.applications.byIndex('name', 'shop')[0]?.spec.busConfig).toEqual({
      busAccess: true,
      busRule: 'small',
    });
    expect(bus.accountToken('shop')?.nats.limits).toMatchObject({ conn: 3 });
  });
});

describe('the operator', () => {
  test('is read by everybody, and its key by who may read bootstrap data', async () => {
    const { token, seed } = bus.texts(operatorSecretName());
    expect((await send('GET', '/bus/operator', undefined, 'viewer')).body).toMatchObject({
      name: 'skerry-operator',
      jwt: token,
    });
    const { status, body } = await send('GET', '/bus/bootstrap');
    expect(status).toBe(200);
    expect(body).toMatchObject({
      operatorJwt: token,
      operatorSeed: seed,
      systemAccountPublicKey: bus.accountToken('SYS')?.sub,
    });
    expect(text(body.sysUserCredsBase64)).toBe(bus.userTexts('SYS', 'admin-hub').creds);
    for (const role of ['sre', 'developer', 'viewer'])
      expect((await send('GET', '/bus/bootstrap', undefined, role)).status).toBe(403);
  });
});

describe('without a message bus', () => {
  test('accounts and users are empty lists, and nothing is made: 400', async () => {
    await using off = await startInMemoryController(1);
    const of = busOf(() => off);
    await of.send('POST', '/application', shopWithBus());
    expect((await of.send('GET', '/bus/accounts')).body).toEqual({ accounts: [] });
    expect((await of.send('GET', '/bus/users')).body).toEqual({ users: [] });
    expect((await of.send('GET', '/bus/operator')).status).toBe(404);
    for (const [method, path, body] of [
      ['POST', '/bus/accounts/shop', {}],
      ['POST', USERS, { name: 'x' }],
      ['POST', MQTT, { name: 'x' }],
      ['DELETE', `${USERS}/x`, undefined],
      ['POST', '/bus/operator/rotate', undefined],
    ] as const)
      expect(await of.send(method, path, body)).toMatchObject({ status: 400, body: { code: 'BUS_DISABLED' } });
  });
});
