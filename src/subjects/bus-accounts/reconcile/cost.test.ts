import { expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { LABELS } from '../../../api/names.ts';
import { busOf, entryWithBus, shopWithBus } from '../_fleet.ts';

/** What an edit costs must not depend on how many other accounts, and users of the same account, there are. */
const [FEW, MANY] = [10, process.env.SKERRY_NIGHTLY ? 1_000 : 60];
/** Further objects that stores may return, since timers and batches vary: a number, and a share of what few accounts take. */
const SLACK = 40;
const SHARE = 0.2;

const USERS = '/bus/accounts/shop/users';
const STEPS: Readonly<Record<string, (bus: ReturnType<typeof busOf>) => Promise<unknown>>> = {
  'an edit of something else': ({ edit }) =>
    edit('shop', (spec) => {
      spec.description = 'other';
    }),
  'another rule of a microservice': ({ edit }) =>
    edit('shop', (spec) => {
      Object.assign(spec.microservices?.[0] ?? {}, { busConfig: { busAccess: true, busRule: 'default-mqtt-user' } });
    }),
  'access turned off': ({ edit }) =>
    edit('shop', (spec) => {
      Object.assign(spec.microservices?.[1] ?? {}, { busConfig: { busAccess: false } });
    }),
  'another user': ({ send }) => send('POST', USERS, { name: 'another' }),
  'a user deleted': ({ send }) => send('DELETE', `${USERS}/another`),
  'the rule of an account edited': ({ send }) => send('PATCH', '/bus/account-rules/stores', { maxConnections: 7 }),
  'a rule edited': ({ send }) => send('PATCH', '/bus/user-rules/readers', { pubDeny: ['a.>'] }),
  'an application with access': ({ send }) =>
    send('POST', '/application', { ...shopWithBus(), name: 'new', microservices: [entryWithBus('pump')] }),
  'an application deleted': ({ send }) => send('DELETE', '/application/new'),
};

async function measure(count: number): Promise<Record<string, { read: number; writes: number; most: string }>> {
  await using fleet: InMemoryController = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  const bus = busOf(() => fleet);
  const post = (path: string, body: object) => fleet.request('POST', path, { token: 'admin', body });
  await post('/bus/user-rules', { name: 'readers', pubDeny: ['>'] });
  await post('/bus/account-rules', { name: 'stores', diskStorage: -1 });
  await bus.send('POST', '/application', shopWithBus({ busConfig: { busAccess: true, busRule: 'stores' } }));
  await post('/bus/accounts/shop/mqtt-bearer', { name: 'meter' });
  await post(USERS, { name: 'reader', busRule: 'readers' });
  for (let i = 0; i < count; i++) {
    const entry = { ...entryWithBus('pump'), agentName: 'gateway-1' };
    await post('/application', { ...shopWithBus(), name: `app-${i}`, microservices: i % 10 ? [] : [entry] });
    await post(USERS, { name: `user-${i}` });
  }
  await fleet.settle();
  const result: Awaited<ReturnType<typeof measure>> = {};
  for (const [name, step] of Object.entries(STEPS)) {
    const [read, writes] = [new Map(fleet.objectsRead), new Map(fleet.cluster.writes)];
    await step(bus);
    await fleet.settle();
    const more = (now: Map<string, number>, before: Map<string, number>) =>
      [...now].map(([what, n]) => [what, n - (before.get(what) ?? 0)] as const).filter(([, n]) => n > 0);
    const sum = (of: readonly (readonly [string, number])[]) => of.reduce((all, [, n]) => all + n, 0);
    const reads = more(fleet.objectsRead, read);
    const most = reads
      .toSorted((a, b) => b[1] - a[1])
      .slice(0, 4)
      .map((one) => one.join(' '))
      .join(', ');
    result[name] = { read: sum(reads), writes: sum(more(fleet.cluster.writes, writes)), most };
  }
  return result;
}

test('one edit reads and writes as much with many accounts and users as with few', async () => {
  const [few, many] = [await measure(FEW), await measure(MANY)];
  const dear = Object.keys(STEPS).flatMap((name) => {
    const [a, b] = [few[name], many[name]];
    if (!a || !b) return [name];
    const isDear = b.read > a.read * (1 + SHARE) + SLACK || b.writes > a.writes + 3;
    return isDear
      ? [`${name}: ${b.read} objects (${b.most}) and ${b.writes} writes, not ${a.read} and ${a.writes}`]
      : [];
  });
  expect(dear).toEqual([]);
}, 900_000);

test('an edit of a rule of many users writes few tokens of their accounts, and revokes all former keys', async () => {
  await using fleet: InMemoryController = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
  const bus = busOf(() => fleet);
  const [accounts, users] = [['shop', 'mill'], 60];
  await bus.send('POST', '/bus/user-rules', { name: 'readers', pubDeny: ['>'] });
  for (const name of accounts) await bus.send('POST', '/application', { ...shopWithBus(), name, microservices: [] });
  for (let i = 0; i < users; i++) {
    const path = `/bus/accounts/${accounts[i % 2]}/users`;
    const { status } = await fleet.request('POST', path, {
      token: 'admin',
      body: { name: `u-${i}`, busRule: 'readers' },
    });
    expect(status).toBe(201);
  }
  await fleet.settle();
  const keyOf = (i: number) => bus.userToken(accounts[i % 2] as string, `u-${i}`)?.sub;
  const former = Array.from({ length: users }, (_, i) => keyOf(i));
  const signed = { count: 0 };
  using _ = fleet.stores.secrets.subscribe(({ object }) => {
    if (object.metadata.labels?.[LABELS.bus] === 'account') signed.count++;
  });
  await bus.send('PATCH', '/bus/user-rules/readers', { pubDeny: ['a.>'] });
  const revoked = () => accounts.flatMap((name) => Object.keys(bus.revoked(name))).sort();
  await expect.poll(revoked, { timeout: 20_000 }).toEqual(former.toSorted());
  // Each account has two turns at once, and one a second after them.
  expect(signed.count).toBeLessThan(accounts.length * 8);
  const left = () => former.flatMap((_, i) => bus.userTexts(accounts[i % 2] as string, `u-${i}`).former ?? []);
  await expect.poll(left, { timeout: 20_000 }).toEqual([]);
}, 60_000);
