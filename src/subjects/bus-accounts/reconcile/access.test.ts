import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { publicNkey } from '../../../signer/nkeys.ts';
import type { BusClaims } from '../../bus-rules/rules/tokens/claims.ts';
import { busOf, entryWithBus, shopWithBus } from '../_fleet.ts';
import { accountSecretName, operatorSecretName, userSecretName } from '../rules/secret.ts';

/** What applications ask of the bus and what becomes of it, event by event, over the whole controller in memory. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const { account, user, accountToken, userToken, accountTexts, userTexts, readyOf, revoked, edit } = bus;

async function createShop(changes: object = {}) {
  expect((await bus.send('POST', '/application', shopWithBus(changes))).status).toBe(201);
}
const tokens = () =>
  ['pump', 'valve'].map((name) => userToken('shop', name)) as [BusClaims | undefined, BusClaims | undefined];
const keys = () => tokens().map((token) => token?.sub);
const signingKeysOf = (token: ReturnType<typeof accountToken>) => (token?.nats.signing_keys ?? []) as string[];

describe('the bus', () => {
  test('has an operator, the account of the servers and the account of the controller from the start', () => {
    const operator = bus.texts(operatorSecretName());
    const key = publicNkey(operator.seed ?? '');
    expect(fleet.stores.busOperators.list()[0]?.status).toMatchObject({
      name: 'skerry-operator',
      publicKey: key,
      jwt: operator.token,
      rotation: 0,
    });
    for (const [name, of] of [
      ['SYS', 'admin-hub'],
      ['controller', 'controller'],
    ] as const) {
      expect([accountToken(name)?.iss, accountToken(name)?.name]).toEqual([key, name]);
      expect(userToken(name, of)?.nats.issuer_account).toBe(accountToken(name)?.sub);
    }
    expect(userTexts('controller', 'controller').creds).toContain(userTexts('controller', 'controller').seed);
  });

  test('makes nothing while it is off, and says so of what kubectl made', async () => {
    await using off = await startInMemoryController(1);
    const of = busOf(() => off);
    await of.send('POST', '/application', shopWithBus());
    const kept = [off.stores.busAccounts, off.stores.busUsers, off.stores.busOperators].map((store) => store.size);
    expect(kept).toEqual([0, 0, 0]);
    const { resource } = off.stores.busAccounts;
    const made = { apiVersion: 'skerry.dev/v3', kind: resource.kind, metadata: { name: 'x', namespace: NAMESPACE } };
    await off.cluster.client.create(resource, { ...made, spec: { application: 'shop' } } as never);
    await off.settle();
    expect(of.readyOf(off.stores.busAccounts.get(NAMESPACE, 'x'))).toMatchObject({ reason: 'BusDisabled' });
    expect(of.accountTexts('shop')).toEqual({});
  });
});

describe('an application with access', () => {
  test('has an account of its name that the operator signs, and a user for each microservice that asks', async () => {
    await createShop();
    const operator = publicNkey(bus.texts(operatorSecretName()).seed ?? '');
    expect(accountToken('shop')).toMatchObject({
      name: 'shop',
      iss: operator,
      sub: account('shop')?.status?.publicKey,
    });
    expect(bus.users('shop')).toEqual(['leaf-gateway-0', 'pump', 'valve']);
    expect(userToken('shop', 'pump')).toMatchObject({
      name: 'pump',
      iss: publicNkey(accountTexts('shop').signing ?? ''),
      nats: { issuer_account: accountToken('shop')?.sub, allowed_connection_types: ['STANDARD', 'WEBSOCKET'] },
    });
    expect(userToken('shop', 'pump')).not.toHaveProperty('exp');
    expect(userToken('shop', 'pump')?.nats).not.toHaveProperty('bearer_token');
    expect(readyOf(user('shop', 'pump'))).toMatchObject({ status: 'True' });
    expect(account('shop')?.metadata.ownerReferences).toMatchObject([{ kind: 'Application', name: 'shop' }]);
  });

  test('keeps keys and tokens over edits that say the same of the bus, restarts and new leaders', async () => {
    await createShop();
    const before = [accountTexts('shop'), userTexts('shop', 'pump')];
    await edit('shop', (spec) => {
      spec.description = 'other';
    });
    fleet.cluster.writes.clear();
    fleet.time.now += 3_600_000;
    await fleet.nextTerm();
    expect([accountTexts('shop'), userTexts('shop', 'pump')]).toEqual(before);
    expect([...fleet.cluster.writes.keys()].filter((what) => /bus|secrets/.test(what))).toEqual([]);
  });

  test('gives a microservice access that asks later, and leaves the others as they are', async () => {
    await createShop();
    const before = keys();
    await edit('shop', (spec) => {
      Object.assign(spec.microservices?.[2] ?? {}, { busEnabled: true });
    });
    expect(bus.users('shop')).toEqual(['lamp', 'leaf-gateway-0', 'pump', 'valve']);
    expect(keys()).toEqual(before);
    expect(revoked('shop')).toEqual({});
  });

  test('revokes the user of a microservice whose access is turned off, and keeps the account', async () => {
    await createShop();
    const [pump] = tokens();
    const key = accountToken('shop')?.sub;
    await edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: false } });
    });
    expect(user('shop', 'pump')).toBeUndefined();
    expect(revoked('shop')).toEqual({ [pump?.sub ?? '']: expect.any(Number) });
    expect(revoked('shop')[pump?.sub ?? '']).toBeGreaterThanOrEqual(pump?.iat ?? Number.NaN);
    expect(accountToken('shop')?.sub).toBe(key);
  });

  test('revokes the user of a microservice that is deleted', async () => {
    await createShop();
    const [, valve] = tokens();
    await edit('shop', (spec) => {
      spec.microservices = spec.microservices?.filter(({ name }) => name !== 'valve');
    });
    expect(Object.keys(revoked('shop'))).toEqual([valve?.sub]);
    expect(bus.users('shop')).toEqual(['leaf-gateway-0', 'pump']);
  });

  test('gives a microservice of the name of a former one another user', async () => {
    await createShop();
    const [pump] = tokens();
    await edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5b00' });
    });
    expect(user('shop', 'pump')?.spec.microserviceUuid).toBe('7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5b00');
    expect(userToken('shop', 'pump')?.sub).not.toBe(pump?.sub);
    expect(Object.keys(revoked('shop'))).toEqual([pump?.sub]);
  });

  test('replaces the user of a microservice that is renamed and keeps its uuid', async () => {
    const uuid = '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a72';
    await createShop({ microservices: [entryWithBus('pump')] });
    await edit('shop', ({ microservices: [pump] = [] }) => Object.assign(pump ?? {}, { uuid }));
    const former = userToken('shop', 'pump')?.sub ?? '';
    await edit('shop', ({ microservices: [pump] = [] }) => Object.assign(pump ?? {}, { name: 'fan' }));
    expect(user('shop', 'pump')).toBeUndefined();
    expect(user('shop', 'fan')?.spec.microserviceUuid).toBe(uuid);
    expect(Object.keys(revoked('shop'))).toContain(former);
  });

  test('without access ends with its account: everybody is refused by the last token, whose key nobody has any more', async () => {
    await createShop();
    const texts = accountTexts('shop');
    const of = account('shop')?.status?.uuid ?? '';
    const [pump] = tokens();
    await edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    expect([account('shop'), bus.users('shop')]).toEqual([undefined, []]);
    const { token, ...rest } = bus.texts(`skerry-bus-account-${of}`);
    expect(Object.keys(rest)).toEqual(['ended']);
    expect(token).not.toBe(texts.token);
    const claims = bus.decode(token);
    expect(claims?.nats.revocations?.['*']).toBeGreaterThanOrEqual(pump?.iat ?? Number.NaN);
    expect(claims?.iat).toBeGreaterThan(bus.decode(texts.token)?.iat ?? Number.NaN);
  });

  test('with access again has an account with another key', async () => {
    await createShop();
    const key = accountToken('shop')?.sub;
    for (const busAccess of [false, true])
      await edit('shop', (spec) => {
        spec.busConfig = { busAccess };
      });
    expect(accountToken('shop')?.sub).toMatch(/^A/);
    expect(accountToken('shop')?.sub).not.toBe(key);
    expect(keys()).toEqual([expect.stringMatching(/^U/), expect.stringMatching(/^U/)]);
  });

  test('is deleted with its account, its users, and their Secrets', async () => {
    await createShop();
    expect((await bus.send('DELETE', '/application/shop')).status).toBeLessThan(300);
    await fleet.settle();
    expect([account('shop'), bus.users('shop')]).toEqual([undefined, []]);
    const left = fleet.stores.secrets.list().filter(({ metadata: { name } }) => name.startsWith('skerry-bus-user-'));
    const owners = new Set(fleet.stores.busUsers.list().map(({ status }) => `skerry-bus-user-${status?.uuid}`));
    expect(left.filter(({ metadata: { name } }) => !owners.has(name))).toEqual([]);
  });
});

describe('the last token of an account that ended', () => {
  test('is kept for a week', async () => {
    await createShop();
    await edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    const ended = () => fleet.stores.secrets.byIndex('endedBusAccount', 'true').length;
    const before = ended();
    expect(before).toBeGreaterThan(0);
    fleet.time.now += 6 * 24 * 3_600_000;
    await fleet.nextTerm();
    expect(ended()).toBe(before);
    fleet.time.now += 2 * 24 * 3_600_000;
    await fleet.nextTerm();
    expect(ended()).toBe(0);
  });
});

describe('another rule', () => {
  const use = (busRule?: string) =>
    edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, ...(busRule && { busRule }) } });
    });
  /** The machine reports the files that it was sent. */
  async function report() {
    fleet.report(fleet.node(0));
    await fleet.settle();
  }
  const saveRule = (name: string, spec: object) =>
    bus.send('POST', '/bus/user-rules', { name, allowedConnectionTypes: ['STANDARD'], ...spec });

  test('gives a microservice another key, and ends the former one once its machine has the new credentials', async () => {
    await createShop();
    await report();
    const [pump, valve] = tokens();
    await use('default-mqtt-user');
    const [after] = tokens();
    expect(after?.sub).not.toBe(pump?.sub);
    expect(after?.nats.allowed_connection_types).toContain('MQTT');
    await report();
    await expect.poll(() => Object.keys(revoked('shop')), { timeout: 10_000 }).toEqual([pump?.sub]);
    await expect.poll(() => userTexts('shop', 'pump'), { timeout: 10_000 }).not.toHaveProperty('former');
    await use('default-mqtt-user');
    expect(keys()).toEqual([after?.sub, valve?.sub]);
  });

  test('ends the former key of a microservice although its machine never says that it has the new one', async () => {
    await createShop();
    const [pump] = tokens();
    await use('default-mqtt-user');
    fleet.time.now += 2_000;
    await expect.poll(() => Object.keys(revoked('shop')), { timeout: 10_000 }).toEqual([pump?.sub]);
  });

  test('by an edit of its document reissues every user that is bound to it, and no other', async () => {
    expect((await saveRule('readers', { pubDeny: ['>'] })).status).toBe(201);
    await createShop();
    await use('readers');
    const [before, valve] = tokens();
    expect(before?.nats).toMatchObject({ pub: { deny: ['>'] } });
    await bus.send('PATCH', '/bus/user-rules/readers', { pubDeny: ['a.>'] });
    fleet.time.now += 2_000;
    await expect.poll(() => Object.keys(revoked('shop')), { timeout: 10_000 }).toContain(before?.sub);
    const [after] = tokens();
    expect(after?.nats).toMatchObject({ pub: { deny: ['a.>'] } });
    expect(after?.sub).not.toBe(before?.sub);
    expect(tokens()[1]).toEqual(valve);
  });

  test('binds users to the default rule when their rule is deleted', async () => {
    await saveRule('readers', { pubDeny: ['>'] });
    await bus.send('POST', '/bus/account-rules', { name: 'small', maxConnections: 3 });
    await createShop({ busConfig: { busAccess: true, busRule: 'small' } });
    await use('readers');
    expect(accountToken('shop')?.nats.limits).toMatchObject({ conn: 3 });
    for (const path of ['/bus/user-rules/readers', '/bus/account-rules/small'])
      expect((await bus.send('DELETE', path)).status).toBe(204);
    expect(tokens()[0]?.nats).not.toHaveProperty('pub');
    expect(accountToken('shop')?.nats.limits).toMatchObject({ conn: -1 });
    expect([account('shop')?.status?.rule, user('shop', 'pump')?.status?.rule]).toEqual([
      'default-account',
      'default-user',
    ]);
  });

  test('is named in a condition with the next step once it no longer exists, and no longer once it exists again', async () => {
    const missing = (object: { status?: { conditions?: readonly { type: string; message?: string }[] } } | undefined) =>
      object?.status?.conditions?.find(({ type }) => type === 'RuleMissing')?.message;
    const application = () => fleet.stores.applications.get(NAMESPACE, 'shop');
    const all = () => [application(), account('shop'), user('shop', 'pump'), user('shop', 'valve')].map(missing);
    const rules = [
      ['/bus/user-rules', { name: 'readers', pubDeny: ['>'] }],
      ['/bus/account-rules', { name: 'small', maxConnections: 3 }],
    ] as const;
    for (const [path, body] of rules) await bus.send('POST', path, body);
    await createShop({ busConfig: { busAccess: true, busRule: 'small' } });
    await use('readers');
    expect(all()).toEqual([undefined, undefined, undefined, undefined]);
    for (const [path, { name }] of rules) await bus.send('DELETE', `${path}/${name}`);
    const [ofAccount, ofUser] = ['there is no BusAccountRule "small"', 'there is no BusUserRule "readers"'];
    const end = (what: string) => `; a built-in rule limits instead. Create ${what}`;
    expect(all()).toEqual([
      `busConfig.busRule of pump: ${ofUser}; busConfig.busRule: ${ofAccount}${end('them, or name other rules')}`,
      `rule: ${ofAccount}${end('it, or name another rule')}`,
      `rule: ${ofUser}${end('it, or name another rule')}`,
      undefined,
    ]);
    expect(readyOf(user('shop', 'pump'))).toMatchObject({ status: 'True' });
    for (const [path, body] of rules) await bus.send('POST', path, body);
    expect(all()).toEqual([undefined, undefined, undefined, undefined]);
    expect(accountToken('shop')?.nats.limits).toMatchObject({ conn: 3 });
    expect(tokens()[0]?.nats).toMatchObject({ pub: { deny: ['>'] } });
  });

  test('has an account signed again with the same key, which refuses the same users', async () => {
    await bus.send('POST', '/bus/account-rules', { name: 'small', maxConnections: 3 });
    await createShop();
    await edit('shop', (spec) => {
      spec.microservices = spec.microservices?.filter(({ name }) => name !== 'valve');
    });
    const before = accountToken('shop');
    const pump = userTexts('shop', 'pump');
    await edit('shop', (spec) => {
      spec.busConfig = { busAccess: true, busRule: 'small' };
    });
    const after = accountToken('shop');
    expect([after?.sub, after?.nats.revocations]).toEqual([before?.sub, before?.nats.revocations]);
    expect(after?.nats.limits).toMatchObject({ conn: 3 });
    expect(after?.iat).toBeGreaterThan(before?.iat ?? Number.NaN);
    expect(userTexts('shop', 'pump')).toEqual(pump);
    await bus.send('PATCH', '/bus/account-rules/small', { maxConnections: 4 });
    expect(accountToken('shop')?.nats.limits).toMatchObject({ conn: 4 });
  });

  test.each([
    ['busUserRules', { times: [{ start: '08:00:00', end: '09:00:00' }], timesLocation: 'Mars/Olympus' }],
    ['busAccountRules', { infoUrl: 'no address' }],
  ] as const)(
    'made invalid by kubectl (%s) changes no token, and a revocation comes all the same',
    async (key, spec) => {
      const path = key === 'busUserRules' ? '/bus/user-rules' : '/bus/account-rules';
      await bus.send('POST', path, { name: 'strict', pubDeny: ['secret.>'] });
      await createShop(key === 'busAccountRules' ? { busConfig: { busAccess: true, busRule: 'strict' } } : {});
      if (key === 'busUserRules') await use('strict');
      const before =
        key === 'busUserRules' ? userTexts('shop', 'pump').token : accountToken('shop')?.nats.default_permissions;
      const rule = fleet.stores[key].byIndex('name', 'strict')[0];
      fleet.cluster.edit(rule as never, (copy: { spec: object }) => {
        copy.spec = spec;
      });
      await fleet.settle();
      const after =
        key === 'busUserRules' ? userTexts('shop', 'pump').token : accountToken('shop')?.nats.default_permissions;
      expect(after).toEqual(before);
      const valve = tokens()[1];
      await edit('shop', ({ microservices = [] }) => {
        Object.assign(microservices[1] ?? {}, { busConfig: { busAccess: false } });
      });
      expect(Object.keys(revoked('shop'))).toContain(valve?.sub);
      expect(key === 'busUserRules' || accountToken('shop')?.nats.default_permissions).toEqual(
        key === 'busUserRules' || before,
      );
    },
  );
});

describe('a lost Secret', () => {
  const lose = async (name: string) => {
    const secret = fleet.stores.secrets.get(NAMESPACE, name);
    if (secret) await fleet.cluster.client.delete(fleet.stores.secrets.resource, { namespace: NAMESPACE, name });
    await fleet.settle();
  };

  test('has another key follow it for a user, and the lost key is refused', async () => {
    await createShop();
    const [pump, valve] = tokens();
    await lose(userSecretName(user('shop', 'pump')?.status?.uuid ?? ''));
    fleet.time.now += 2_000;
    await expect.poll(() => Object.keys(revoked('shop')), { timeout: 10_000 }).toEqual([pump?.sub]);
    expect(keys()).toEqual([expect.not.stringContaining(pump?.sub ?? ''), valve?.sub]);
  });

  test('has other signing keys follow it for an account, which keeps its key, and a later token', async () => {
    await createShop();
    const before = accountToken('shop');
    const users = tokens();
    fleet.time.now -= 600_000;
    await lose(accountSecretName(account('shop')?.status?.uuid ?? ''));
    fleet.time.now += 600_000;
    const after = accountToken('shop');
    expect(after?.sub).toBe(before?.sub);
    expect(after?.iat).toBeGreaterThan(before?.iat ?? Number.NaN);
    const former = signingKeysOf(before);
    expect(signingKeysOf(after).filter((key) => former.includes(key))).toEqual([]);
    expect(keys()).toEqual(users.map((token) => token?.sub));
    for (const token of tokens()) {
      expect(token?.nats.issuer_account).toBe(after?.sub);
      expect(signingKeysOf(after)).toContain(token?.iss);
    }
  });

  test('has the account of the servers keep its key, so that they keep their streams, and says since when other keys sign', async () => {
    const before = accountToken('SYS');
    expect(accountTexts('SYS').renewed).toBeUndefined();
    await lose(accountSecretName(account('SYS')?.status?.uuid ?? ''));
    const after = accountToken('SYS');
    expect(after?.sub).toBe(before?.sub);
    expect(signingKeysOf(after).filter((key) => signingKeysOf(before).includes(key))).toEqual([]);
    expect(accountTexts('SYS').renewed).toBe(String(after?.iat));
    const { renewed } = accountTexts('SYS');
    await fleet.nextTerm();
    expect(accountTexts('SYS').renewed).toBe(renewed);
  });

  test('put back from a copy has other keys follow it for the account of the servers, which have later tokens', async () => {
    const name = accountSecretName(account('SYS')?.status?.uuid ?? '');
    const copy = fleet.stores.secrets.get(NAMESPACE, name)?.data;
    const former = accountToken('SYS');
    await lose(name);
    const lost = accountToken('SYS');
    const present = fleet.stores.secrets.get(NAMESPACE, name);
    if (present) fleet.cluster.edit(present, (secret) => Object.assign(secret, { data: copy }));
    await fleet.settle();
    const after = accountToken('SYS');
    expect(after?.sub).toBe(former?.sub);
    expect(after?.iat).toBeGreaterThan(lost?.iat ?? Number.NaN);
    const ended = [...signingKeysOf(former), ...signingKeysOf(lost)];
    expect(signingKeysOf(after).filter((key) => ended.includes(key))).toEqual([]);
    expect(signingKeysOf(after)).toContain(userToken('SYS', 'admin-hub')?.iss);
  });
});

describe('a former key of an account', () => {
  const path = '/bus/accounts/shop/users';
  async function withFormerKey() {
    await createShop();
    for (const name of ['dashboard', 'report']) await bus.send('POST', path, { name });
    await bus.send('POST', path, { name: 'guest', expiresIn: '1h' });
    fleet.time.now += 2 * 3_600_000;
    await bus.refuseMany('shop', 600, { kept: true });
    await expect.poll(() => bus.outdatedOf('shop')?.status).toBe('True');
  }

  test('has a condition that names who holds credentials of it, and the command that ends it, and an event', async () => {
    await withFormerKey();
    const [former] = JSON.parse(accountTexts('shop')['former-keys'] ?? '{}').keys;
    const command = `kubectl patch busaccount ${account('shop')?.metadata.name} --type merge -p '{"spec":{"endedKey":"${former}"}}'`;
    expect(bus.outdatedOf('shop')).toMatchObject({
      reason: 'FormerKeyTrusted',
      message: `a former key ends at 2048 revocations, or with ${command}: before, fetch the credentials again of dashboard; report`,
    });
    expect(readyOf(account('shop'))).toMatchObject({ status: 'True' });
    expect(fleet.events).toContainEqual(
      expect.objectContaining({ type: 'Warning', reason: 'FormerKeyTrusted', note: expect.stringContaining(command) }),
    );
  });

  test('names no user that is made later, and none that was deleted', async () => {
    await withFormerKey();
    fleet.time.now += 120_000;
    await bus.send('POST', path, { name: 'later' });
    const later = user('shop', 'later');
    if (later)
      fleet.cluster.edit(later, ({ metadata }) => {
        // The API server in memory has a clock of its own.
        metadata.creationTimestamp = new Date(fleet.time.now).toISOString();
      });
    await bus.send('DELETE', `${path}/report`);
    expect(bus.outdatedOf('shop')?.message).toMatch(/again of dashboard$/);
    await bus.send('DELETE', `${path}/dashboard`);
    expect(bus.outdatedOf('shop')?.message).toMatch(
      /^nobody has credentials that a former key signed: end it with kubectl/,
    );
  });

  test('keeps keys and credentials of microservices as they are, from its beginning to its end', async () => {
    await createShop();
    await bus.send('POST', path, { name: 'dashboard' });
    const before = [userTexts('shop', 'pump'), userTexts('shop', 'valve')];
    const key = userToken('shop', 'dashboard')?.sub;
    await bus.refuseMany('shop', 600, { kept: true });
    await expect.poll(() => bus.outdatedOf('shop')?.status).toBe('True');
    await bus.endFormerKey('shop');
    expect(bus.outdatedOf('shop')).toBeUndefined();
    expect([userTexts('shop', 'pump'), userTexts('shop', 'valve')]).toEqual(before);
    expect(userToken('shop', 'dashboard')?.sub).toBe(key);
    expect(accountToken('shop')?.nats.signing_keys).toHaveLength(2);
  });

  test('costs no write while it is trusted', async () => {
    await withFormerKey();
    fleet.cluster.writes.clear();
    await fleet.nextTerm();
    expect([...fleet.cluster.writes.keys()].filter((what) => /bus|secrets/.test(what))).toEqual([]);
  });
});

test('a user whose key another signing key follows is revoked for good, whenever it was revoked', async () => {
  await createShop();
  await bus.refuseMany('shop', 600);
  const pump = () => userToken('shop', 'pump');
  await expect.poll(() => pump()?.iss).toBe(publicNkey(accountTexts('shop').signing ?? ''));
  expect(accountTexts('shop').retiring).toBeDefined();
  const late = pump()?.sub ?? '';
  await edit('shop', (spec) => {
    spec.microservices = spec.microservices?.filter(({ name }) => name !== 'pump');
  });
  expect(Object.keys(revoked('shop'))).toContain(late);
  fleet.time.now += 3_000;
  await fleet.nextTerm();
  await expect.poll(() => accountTexts('shop').retiring, { timeout: 20_000 }).toBeUndefined();
  expect(Object.keys(revoked('shop'))).toEqual([late]);
});

describe('a clock', () => {
  test('set right after it was ahead makes no token earlier, and no revocation earlier than a token', async () => {
    fleet.time.now += 600_000;
    await createShop();
    const [pump, valve] = tokens();
    const ahead = accountToken('shop')?.iat ?? Number.NaN;
    fleet.time.now -= 600_000;
    await edit('shop', (spec) => {
      spec.microservices = spec.microservices?.filter(({ name }) => name !== 'valve');
    });
    expect(accountToken('shop')?.iat).toBeGreaterThan(ahead);
    expect(revoked('shop')[valve?.sub ?? '']).toBeGreaterThanOrEqual(valve?.iat ?? Number.NaN);
    await edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } });
    });
    fleet.time.now += 2_000;
    await expect.poll(() => Object.keys(revoked('shop')), { timeout: 10_000 }).toContain(pump?.sub);
    expect(userToken('shop', 'pump')?.iat).toBeGreaterThan(pump?.iat ?? Number.NaN);
    expect(revoked('shop')[pump?.sub ?? '']).toBeGreaterThanOrEqual(pump?.iat ?? Number.NaN);
  });
});

describe('on the bus', () => {
  test('a node that is a leaf has an account and a user of the system, and a user of each application with access there', async () => {
    await createShop();
    expect(user('SYS-leaf-gateway-0', 'admin-leaf-gateway-0')?.spec.node).toBe('gateway-0');
    expect(userToken('shop', 'leaf-gateway-0')?.nats.allowed_connection_types).toEqual(['LEAFNODE', 'WEBSOCKET']);
    expect(user('shop', 'leaf-gateway-1')).toBeUndefined();
  });

  test('a node gets the leaf user of an application with the microservice that moves there, and the former node loses it', async () => {
    await createShop({ microservices: [entryWithBus('pump')] });
    const former = userToken('shop', 'leaf-gateway-0')?.sub;
    await edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { agent: { name: 'gateway-1' } });
    });
    fleet.report(fleet.node(0));
    await fleet.settle();
    fleet.report(fleet.node(0));
    await fleet.settle();
    expect(bus.users('shop')).toEqual(['leaf-gateway-1', 'pump']);
    expect(Object.keys(revoked('shop'))).toEqual([former]);
  });

  test('a node that becomes a server has a user of the account of all servers, and a user of each account', async () => {
    await createShop();
    fleet.cluster.edit(fleet.node(0), ({ spec }) => {
      spec.busMode = 'server';
    });
    await fleet.settle();
    expect(user('SYS', 'admin-server-gateway-0')).toBeDefined();
    expect(bus.users('shop')).toEqual(['leaf-gateway-0', 'pump', 'valve']);
    expect(bus.account('SYS-leaf-gateway-0')).toBeUndefined();
    fleet.cluster.edit(fleet.node(0), ({ spec }) => {
      delete spec.busMode;
    });
    await fleet.settle();
    expect(bus.users('SYS')).toEqual(['admin-hub']);
  });
});
