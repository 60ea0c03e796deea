import { expect, test } from 'vitest';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { LABELS } from '../../../api/names.ts';
import type { KubeObject } from '../../../kube/mod.ts';
import { busOf, entryWithBus, shopWithBus } from '../_fleet.ts';

/** What an edit costs must not depend on how many other accounts, and users of the same account, there are. */
const [FEW, MANY] = [10, process.env.SKERRY_NIGHTLY ? 1_000 : 60];
/**
 * Further objects and writes that an edit may cost besides the deletion of an application: a rule of the step before may be read once more on a
 * slow machine, far fewer than the fifty further accounts. A user whose
 * machine has not reported is looked at every 200 ms meanwhile: a slow machine reads the same objects more often, so that each counts once.
 */
const SLACK = { read: 2, writes: 0 };
/** Users of an application that ends are released beside each other, and whether one token refuses several of them depends on who is first. */
const SLACK_OF_END = { read: 2, writes: 4 };

const USERS = '/bus/accounts/shop/users';
const END = 'an application deleted';
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
  [END]: ({ send }) => send('DELETE', '/application/new'),
};

interface Cost {
  read: ReadonlySet<string>;
  writes: number;
}

async function measure(count: number): Promise<Map<string, Cost>> {
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
  const costs = new Map<string, Cost>();
  const written = () => [...fleet.cluster.writes.values()].reduce((sum, n) => sum + n, 0);
  for (const [name, step] of Object.entries(STEPS)) {
    const read = new Set<string>();
    const note = (store: string, objects: readonly KubeObject[]) => {
      for (const { metadata } of objects) read.add(`${store} ${metadata.name}`);
    };
    const before = written();
    fleet.readers.add(note);
    await step(bus);
    await fleet.settle();
    fleet.readers.delete(note);
    costs.set(name, { read, writes: written() - before });
  }
  return costs;
}

test('one edit reads and writes as much with many accounts and users as with few', async () => {
  const [few, many] = [await measure(FEW), await measure(MANY)];
  const dear = [...many].flatMap(([name, { read, writes }]) => {
    const { read: least, writes: fewest } = few.get(name) ?? { read: new Set(), writes: 0 };
    const slack = name === END ? SLACK_OF_END : SLACK;
    if (read.size <= least.size + slack.read && writes <= fewest + slack.writes) return [];
    const further = [...read].filter((one) => !least.has(one)).slice(0, 8);
    return [`${name}: ${read.size} objects, not ${least.size} (${further}); ${writes} writes, not ${fewest}`];
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
  const began = performance.now();
  await bus.send('PATCH', '/bus/user-rules/readers', { pubDeny: ['a.>'] });
  const revoked = () => accounts.flatMap((name) => Object.keys(bus.revoked(name))).sort();
  await expect.poll(revoked, { timeout: 20_000 }).toEqual(former.toSorted());
  // Each account has two turns at once, and one a second after them: a slow machine takes more seconds.
  const seconds = Math.ceil((performance.now() - began) / 1_000);
  expect(signed.count).toBeLessThanOrEqual(accounts.length * (2 + seconds));
  const left = () => former.flatMap((_, i) => bus.userTexts(accounts[i % 2] as string, `u-${i}`).former ?? []);
  await expect.poll(left, { timeout: 20_000 }).toEqual([]);
}, 60_000);
