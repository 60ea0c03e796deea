import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { createLeaderKills, killsOfNight } from '../../../../testing/leader-kills.ts';
import type { Secret } from '../../../api/resources.ts';
import type { BusAccount } from '../../../api/v3/index.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { uuidOf } from '../../../rules/identity.ts';
import { decodeToken } from '../../bus-rules/rules/tokens/decode.ts';
import { busOf, entryWithBus, shopWithBus } from '../_fleet.ts';
import { accountSecretName, operatorSecretName } from '../rules/secret.ts';

/**
 * A leader that is killed before or after each of its writes, while an application gets access, changes rules, loses microservices and
 * ends. No token of an account ever goes back.
 */
let fleet: InMemoryController;
let kills: ReturnType<typeof createLeaderKills>;
let history: Map<string, { iat: number; revoked: Record<string, number> }>;
const faults: string[] = [];
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  kills = createLeaderKills(fleet, {
    resources: new Set(['busaccounts', 'bususers', 'busoperators', 'secrets']),
    deletedByLeader: new Set(['busaccounts', 'bususers', 'secrets']),
    onWritten: (resource, object) => resource === 'secrets' && note(object as Secret),
  });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());
const AHEAD_MS = 600_000;
/** The long form kills four times as often, and a busy machine takes ten seconds for a story. */
const TIMEOUT_MS = process.env.SKERRY_NIGHTLY ? 1_800_000 : 600_000;
const bus = busOf(() => fleet);

/** The latest time in a token of a user that was ever stored, by the key of its account. Unix s */
let signed: Map<string, number>;

/** Each token of an account is later than the one before, and refuses whom that refused. */
function note({ metadata: { name }, data }: Secret): void {
  const token = decodeToken(decodeData(data).token ?? '');
  if (!token) return;
  const { issuer_account: of } = token.nats;
  if (typeof of === 'string') signed.set(of, Math.max(signed.get(of) ?? 0, token.iat));
  if (!name.startsWith(accountSecretName(''))) return;
  const key = `${name} ${token.sub}`;
  const before = history.get(key);
  const revoked = token.nats.revocations ?? {};
  if (
    before &&
    (token.iat < before.iat ||
      (token.iat === before.iat && Object.keys(revoked).length !== Object.keys(before.revoked).length))
  )
    faults.push(`the token of ${token.name} went from ${before.iat} to ${token.iat}`);
  for (const [user, time] of Object.entries(before?.revoked ?? {}))
    if ((revoked[user] ?? 0) < time) faults.push(`${token.name} refuses ${user} no longer`);
  history.set(key, { iat: token.iat, revoked });
}

async function story(): Promise<string[]> {
  history = new Map();
  signed = new Map();
  faults.length = 0;
  const amiss: string[] = faults;
  const user = async (method: string, path: string, body?: object) => {
    const { status, body: reply } = await fleet.request(method, path, { token: 'admin', ...(body && { body }) });
    if (status >= 300) amiss.push(`${method} ${path}: ${status} ${JSON.stringify(reply)}`);
    await kills.settled();
    // The machine never reports its new credentials: former keys end after a while.
    fleet.time.now += 3_000;
    await fleet.nextTerm();
    await kills.settled();
  };
  const keyOf = (name: string) => bus.userToken('shop', name)?.sub ?? `${name} has no key`;
  const expectUsers = (when: string, names: string[]) => {
    const users = bus.users('shop').filter((name) => !name?.startsWith('leaf-'));
    if (users.join() !== names.join()) amiss.push(`${when}: users ${users.join()} instead of ${names.join()}`);
    for (const name of names) {
      const token = bus.userToken('shop', name);
      if (!token || token.nats.issuer_account !== bus.accountToken('shop')?.sub)
        amiss.push(`${when}: ${name} has no token`);
      if (token && token.sub in bus.revoked('shop')) amiss.push(`${when}: ${name} is revoked`);
      if (bus.userTexts('shop', name).former) amiss.push(`${when}: a former key of ${name} is not revoked`);
    }
  };
  const expectRevoked = (when: string, keys: string[]) => {
    for (const key of keys) if (!(key in bus.revoked('shop'))) amiss.push(`${when}: ${key} is not revoked`);
  };

  await user('POST', '/application', shopWithBus({ microservices: [entryWithBus('pump'), entryWithBus('valve')] }));
  expectUsers('made', ['pump', 'valve']);
  const [pump, valve] = [keyOf('pump'), keyOf('valve')];
  const withRule = [
    entryWithBus('pump', { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } }),
    entryWithBus('valve'),
  ];
  await user('PUT', '/application/shop', shopWithBus({ microservices: withRule }));
  expectUsers('another rule', ['pump', 'valve']);
  expectRevoked('another rule', [pump]);
  if (keyOf('valve') !== valve) amiss.push('another rule: valve has another key');
  const second = keyOf('pump');
  await user('PUT', '/application/shop', shopWithBus({ microservices: withRule.slice(0, 1) }));
  expectUsers('one deleted', ['pump']);
  expectRevoked('one deleted', [pump, valve]);
  if (keyOf('pump') !== second) amiss.push('one deleted: pump has another key');
  const secret = accountSecretName(uuidOf(bus.account('shop') as BusAccount));
  await user(
    'PUT',
    '/application/shop',
    shopWithBus({ busConfig: { busAccess: false }, microservices: [entryWithBus('pump', { busConfig: undefined })] }),
  );
  if (bus.account('shop') || bus.users('shop').length > 0) amiss.push('off: something is left');
  if (!bus.decode(bus.texts(secret).token)?.nats.revocations?.['*']) amiss.push('off: the last token refuses nobody');
  if (bus.texts(secret).seed) amiss.push('off: the key of the account is left');
  await user('DELETE', '/application/shop');
  return [...amiss];
}

test(
  'a leader that is killed before or after any write of the bus leaves nothing behind and undoes no revocation',
  async () => {
    const { writes, found } = await kills.everyKill(story);
    expect(found).toEqual([]);
    expect(writes.length).toBeGreaterThan(15);
  },
  TIMEOUT_MS,
);

test('each kill of a long story happens within as many nights as it is spread over', () => {
  const told = [0, 1, 2].map((night) => killsOfNight(52, 3, 20_785 + night));
  expect(new Set(told.flat().map(({ n, when }) => `${when} ${n}`)).size).toBe(104);
  for (const night of told) {
    expect(night.length).toBeLessThan(36);
    expect(new Set(night.map(({ when }) => when)).size).toBe(2);
  }
});

/** A leader with a clock ahead signs a user, and may end before the status has the time in its token. */
async function storyAhead(): Promise<string[]> {
  history = new Map();
  signed = new Map();
  faults.length = 0;
  const one = (changes: object) => shopWithBus({ microservices: [entryWithBus('pump')], ...changes });
  await fleet.request('POST', '/application', { token: 'admin', body: one({}) });
  await kills.settled();
  const account = bus.account('shop') as BusAccount;
  const key = bus.accountToken('shop')?.sub ?? '';
  fleet.time.now += AHEAD_MS;
  await bus.edit('shop', ({ microservices }) => {
    Object.assign(microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } });
  });
  // Nobody continues a dead leader's work before the application ends.
  fleet.time.now -= AHEAD_MS;
  await bus.edit('shop', (spec) => {
    spec.busConfig = { busAccess: false };
  });
  await kills.settled();
  const refused = bus.decode(bus.texts(accountSecretName(uuidOf(account))).token)?.nats.revocations?.['*'] ?? 0;
  const latest = signed.get(key) ?? 0;
  const amiss = [...faults];
  if (refused < latest) amiss.push(`the last token refuses tokens of until ${refused}, and there is one of ${latest}`);
  if (bus.account('shop') || bus.users('shop').length > 0) amiss.push('something is left');
  fleet.time.now += AHEAD_MS;
  return amiss;
}

test(
  'an account that ends refuses a token that a leader with a clock ahead signed, whenever that leader is killed',
  async () => {
    const { writes, found } = await kills.everyKill(storyAhead);
    expect(found).toEqual([]);
    expect(writes.length).toBeGreaterThan(5);
  },
  TIMEOUT_MS,
);

/** Rules, a user of a program, a user of MQTT and the key of the operator change; each begins with what the one before left. */
async function storyOfRules(): Promise<string[]> {
  history = new Map();
  signed = new Map();
  faults.length = 0;
  const amiss: string[] = faults;
  const send = async (method: string, path: string, body?: object) => {
    const ask = () => fleet.request(method, path, { token: 'admin', ...(body && { body }) });
    const { status, body: reply } = await ask();
    await settled();
    // Deletes of users count as the leader's: its death may cut off the one of a route, whose caller asks again.
    const isCutOff = method === 'DELETE' && status === 500;
    const answered = isCutOff ? (await ask()).status : status;
    if (isCutOff) await settled();
    if (answered >= 300 && !(isCutOff && answered === 404))
      amiss.push(`${method} ${path}: ${answered} ${JSON.stringify(reply)}`);
  };
  /** Machines report what they have, and former keys end. */
  const settled = async () => {
    await kills.settled();
    // Time first: a report right after other work would wait for others.
    fleet.time.now += 3_000;
    for (const node of [fleet.node(0), fleet.spare]) fleet.report(node);
    await kills.settled();
    await fleet.nextTerm();
    await kills.settled();
  };
  const keysOf = () =>
    ['pump', 'dashboard', 'meter'].map((name) => bus.userToken('shop', name)?.sub ?? `${name}: no key`);
  const expectAll = (when: string, isTrue: boolean) => void (isTrue || amiss.push(when));
  const operator = () => fleet.stores.busOperators.list()[0];
  const operatorKey = () => bus.decode(bus.texts(operatorSecretName()).token)?.sub;

  await send('POST', '/bus/user-rules', { name: 'readers', pubDeny: ['>'] });
  await send('POST', '/bus/account-rules', { name: 'stores', diskStorage: -1, memStorage: -1 });
  const busConfig = { busAccess: true, busRule: 'stores' };
  const microservices = [entryWithBus('pump', { busConfig: { busAccess: true, busRule: 'readers' } })];
  await send('POST', '/application', shopWithBus({ busConfig, microservices }));
  await send('POST', '/bus/accounts/shop/users', { name: 'dashboard', busRule: 'readers' });
  await send('POST', '/bus/accounts/shop/mqtt-bearer', { name: 'meter' });
  const first = keysOf();
  await send('PATCH', '/bus/account-rules/stores', { maxConnections: 7 });
  const limits = bus.accountToken('shop')?.nats.limits as { conn?: number } | undefined;
  expectAll('the rule of the account is not in its token', limits?.conn === 7);
  expectAll('the rule of the account gave users other keys', keysOf().join() === first.join());
  await send('PATCH', '/bus/user-rules/readers', { pubDeny: ['a.>'] });
  const second = keysOf();
  const isRevoked = (key: string | undefined) => key !== undefined && key in bus.revoked('shop');
  expectAll('users of an edited rule keep their keys', second[0] !== first[0] && second[1] !== first[1]);
  expectAll('a user of another rule has another key', second[2] === first[2]);
  expectAll('former keys of an edited rule are not revoked', isRevoked(first[0]) && isRevoked(first[1]));
  const former = operatorKey();
  await send('POST', '/bus/operator/rotate');
  for (let i = 0; i < 3 && operatorKey() === former; i++) {
    fleet.time.now += 11 * 60_000;
    await settled();
  }
  fleet.time.now += 11 * 60_000;
  await settled();
  expectAll('the operator has its former key', operatorKey() !== former);
  for (const name of ['SYS', 'controller', 'shop'])
    expectAll(`the former operator signed ${name}`, bus.accountToken(name)?.iss === operatorKey());
  expectAll('a rotation gave users other keys', keysOf().join() === second.join());
  expectAll('a rotation undid a revocation', isRevoked(first[0]) && isRevoked(first[1]));
  const rotation = operator()?.status;
  expectAll('the rotation has not ended', rotation?.rotation === operator()?.spec.rotation);
  await send('DELETE', '/bus/accounts/shop/users/dashboard');
  await send('DELETE', '/bus/accounts/shop/mqtt-bearer/meter');
  expectAll('deleted users are not revoked', isRevoked(second[1]) && isRevoked(second[2]));
  const { metadata } = bus.account('shop') ?? {};
  expectAll('the account is gone', metadata !== undefined);
  await send('DELETE', '/application/shop');
  for (const part of ['user-rules/readers', 'account-rules/stores']) await send('DELETE', `/bus/${part}`);
  expectAll('something is left', !bus.account('shop') && bus.users('shop').length === 0);
  return [...amiss];
}

test.runIf(process.env.SKERRY_NIGHTLY)(
  'a leader that is killed while rules, further users and the key of the operator change undoes nothing',
  async () => {
    // With all of its kills it takes longer than all else of a night.
    const { writes, found } = await kills.everyKill(storyOfRules, { nights: 3 });
    expect(found).toEqual([]);
    expect(writes.length).toBeGreaterThan(20);
  },
  TIMEOUT_MS,
);
