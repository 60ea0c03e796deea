import { hash } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { atEnd } from '../../../testing/at-end.ts';
import { busClient, startBusServer } from '../../../testing/bus.ts';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import { keyOf, makeKey, makeToken, type TestKey } from '../../agents/_util.ts';
import type { BusUser, EdgeNode } from '../../api/v3/index.ts';
import { connectBus } from '../../bus-client/connection.ts';
import { nodeUuid, uuidOf } from '../../rules/identity.ts';
import { busOf, entryWithBus, shopWithBus } from '../bus-accounts/_fleet.ts';
import { operatorSecretName, userSecretName } from '../bus-accounts/rules/secret.ts';

/** Users, names and machines that ask for the property of others. No policy is installed here: whoever may write an object writes any. */
let fleet: InMemoryController;
const keys = new Map<string, TestKey>();
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true' } });
  // The machines of both nodes have keys with which tests sign.
  for (const node of [fleet.node(0), fleet.node(1)]) {
    const key = makeKey();
    keys.set(nodeUuid(node), key);
    const { data = {}, metadata } = keyOf(node, key);
    const secret = fleet.stores.secrets.get(NAMESPACE, metadata.name);
    if (secret) fleet.cluster.edit(secret, (copy) => Object.assign(copy, { data }));
  }
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const createShop = async (changes: object = {}) =>
  expect((await bus.send('POST', '/application', shopWithBus(changes))).status).toBe(201);
const setsOf = (i: number) => fleet.desired(nodeUuid(fleet.node(i)))?.systemFiles ?? [];
const uuidOfEntry = (application: string, name: string) =>
  fleet.stores.applications.byIndex('name', application)[0]?.status?.microservices?.find((one) => one.name === name)
    ?.uuid ?? '';
const textOf = (content = '') => Buffer.from(content, 'base64').toString();

/** A server that trusts the operator of the installation, with the tokens of these accounts. */
const startHub = (accounts: readonly string[]) =>
  startBusServer(
    {
      operator: bus.texts(operatorSecretName()).token ?? '',
      system: { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' },
    },
    {
      preload: Object.fromEntries(
        accounts.map((name) => [bus.accountToken(name)?.sub ?? '', bus.accountTexts(name).token ?? '']),
      ),
    },
  );

describe('where no policy is installed', () => {
  const create = async (name: string, spec: BusUser['spec']) => {
    const { resource } = fleet.stores.busUsers;
    const metadata = { name, namespace: NAMESPACE };
    await fleet.cluster.client.create(resource, {
      apiVersion: 'skerry.dev/v3',
      kind: resource.kind,
      metadata,
      spec,
    } as never);
    await fleet.settle();
    return () => fleet.stores.busUsers.get(NAMESPACE, name);
  };

  test.each<[string, BusUser['spec']]>([
    ['in the account of the servers', { account: 'SYS', name: 'me' }],
    ['in the account of the servers, for a node that does not exist', { account: 'SYS', name: 'me', node: 'no-node' }],
    ['in the account of the controller', { account: 'controller', name: 'me' }],
    ['in the account of the server of a node', { account: 'SYS-leaf-gateway-0', name: 'me' }],
    ['of a node that does not exist', { account: 'shop', name: 'me', node: 'no-node' }],
  ])('a user that a developer makes %s gets no key, and says why', async (_, spec) => {
    await createShop();
    const found = await create('mine', spec);
    expect(bus.readyOf(found())).toMatchObject({
      status: 'False',
      reason: 'BusUserOfSystem',
      message: expect.stringContaining('delete it'),
    });
    expect(bus.texts(userSecretName(uuidOf(found() as BusUser)))).toEqual({});
    expect(found()?.status?.publicKey).toBeUndefined();
  });

  test('a user that a developer makes of a node that exists is deleted', async () => {
    await createShop();
    for (const account of ['shop', 'SYS', 'SYS-leaf-gateway-0']) {
      const found = await create('mine', { account, name: 'me', node: 'gateway-0' });
      expect(found(), account).toBeUndefined();
    }
  });

  test('a microservice gets the credentials of its own user alone, whoever names it', async () => {
    await createShop();
    const uuid = uuidOfEntry('shop', 'pump');
    for (const account of ['SYS', 'controller', 'shop'])
      await create(`mine-${account.toLowerCase()}`, { account, name: 'me', microserviceUuid: uuid });
    const files = setsOf(0).find(({ name }) => name === `bus-${uuid}`)?.files ?? {};
    expect(Object.values(files).map(textOf)).toEqual([bus.userTexts('shop', 'pump').creds]);
    expect(bus.users('shop')).not.toContain('me');
    for (const account of ['SYS', 'controller']) expect(bus.userTexts(account, 'me')).toEqual({});
  });

  test('a second account with the name of the account of the servers changes no server', async () => {
    await createShop();
    const [token, files] = [bus.accountTexts('SYS').token, JSON.stringify(setsOf(0))];
    const { resource } = fleet.stores.busAccounts;
    const metadata = { name: 'a-first', namespace: NAMESPACE };
    const made = { apiVersion: 'skerry.dev/v3', kind: resource.kind, metadata };
    await fleet.cluster.client.create(resource, { ...made, spec: { name: 'SYS', system: 'system' } } as never);
    await fleet.settle();
    expect(bus.readyOf(fleet.stores.busAccounts.get(NAMESPACE, 'a-first'))).toMatchObject({ reason: 'NameTaken' });
    expect([bus.accountTexts('SYS').token, JSON.stringify(setsOf(0))]).toEqual([token, files]);
  });
});

describe('names with one slug', () => {
  const LONG = 'a'.repeat(64);
  test.each([
    ['of applications', ['shop.a', 'pump'], ['shop-a', 'pump']],
    ['of microservices of one application', ['shop', 'pump.a'], ['shop', 'pump-a']],
    ['that are cut', [`${LONG}-first`, 'pump'], [`${LONG}-second`, 'pump']],
  ] as const)('%s give each container its own credentials, and no message to a stranger', async (_, one, other) => {
    const wanted = new Map<string, string[]>();
    for (const [application, name] of [one, other]) wanted.set(application, [...(wanted.get(application) ?? []), name]);
    for (const [name, entries] of wanted)
      await createShop({ name, microservices: entries.map((entry) => entryWithBus(entry)) });
    const files = [one, other].map(
      ([application, name]) =>
        setsOf(0).find((set) => set.name === `bus-${uuidOfEntry(application, name)}`)?.files ?? {},
    );
    // Each container has one path, which may be the same: they share no folder.
    expect(files.map((each) => Object.values(each).map(textOf))).toEqual(
      [one, other].map(([application, name]) => [bus.userTexts(application, name).creds]),
    );
    const server = await startHub([...wanted.keys()]);
    const [first, second] = await Promise.all(
      files.map((each) => busClient(server.url, { publicKey: '', creds: Object.values(each).map(textOf)[0] ?? '' })),
    );
    if (!first || !second) throw new Error('no client');
    const received = second.subscribe('>');
    await second.flush();
    first.publish('orders');
    await first.flush();
    await second.flush();
    expect(received.getReceived()).toBe(one[0] === other[0] ? 1 : 0);
  });
});

describe('a stolen machine with a bus server', () => {
  test('sends tokens to a server of the hub, and neither receives from its system, nor answers for it, nor stops it', async () => {
    await createShop();
    const become = (busMode: EdgeNode['spec']['busMode']) =>
      fleet.cluster.edit(fleet.node(0), ({ spec }) => Object.assign(spec, { busMode }));
    become('server');
    atEnd(() => become(undefined));
    await fleet.settle();
    const { url } = await startHub(['shop']);
    const stolen = bus.userTexts('SYS', 'admin-server-gateway-0').creds ?? '';
    const signal = AbortSignal.timeout(60_000);
    const own = await connectBus({ servers: [url], creds: stolen, name: 'test', signal });
    atEnd(() => own.close());
    const token = bus.accountTexts('shop').token ?? '';
    expect((await own.tokens([], signal)).get(bus.accountToken('shop')?.sub ?? '')).toEqual([token]);
    await own.push(token, signal);
    await own.reload(signal);

    const thief = await busClient(url, { publicKey: '', creds: stolen });
    const refused: string[] = [];
    const states = thief.status()[Symbol.asyncIterator]();
    const subjects = ['$SYS.>', '$SYS.REQ.CLAIMS.>', '$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP', '$SYS.ACCOUNT.*.CONNECT'];
    for (const subject of subjects) thief.subscribe(subject, { callback: () => {} });
    const published = [
      '_INBOX.leader.1',
      '$SYS.REQ.SERVER.PING.VARZ',
      '$SYS.REQ.SERVER.x.LDM',
      '$SYS.REQ.CLAIMS.DELETE',
    ];
    for (const subject of published) thief.publish(subject, 'x');
    while (refused.length < subjects.length + published.length) {
      const { value } = await states.next();
      if (value?.data === 'PERMISSIONS_VIOLATION') refused.push(value.permissionContext?.subject ?? '');
    }
    expect(refused.toSorted()).toEqual([...subjects, ...published].toSorted());
  });
});

describe('a machine that asks for files of another node', () => {
  const ask = (node: EdgeNode, path: string) =>
    fleet.request('GET', `/agent${path}`, {
      // Tokens end by the time of the machine, and a busy one takes longer for the tests before than a token is valid.
      token: makeToken(nodeUuid(node), keys.get(nodeUuid(node)) as TestKey, Math.max(fleet.time.now, Date.now())),
    });
  const digestOf = (content: string) => hash('sha256', Buffer.from(content, 'base64'));

  test('gets none of them: neither credentials nor tokens of accounts that it has not', async () => {
    // A token of the second in which a replica began is refused.
    fleet.time.now += 5_000;
    await createShop();
    await createShop({ name: 'mill', microservices: [entryWithBus('saw', { agentName: 'gateway-1' })] });
    const contents = (i: number) => setsOf(i).flatMap(({ files }) => Object.values(files));
    const own = new Set(contents(1));
    const foreign = contents(0).filter((content) => !own.has(content));
    const texts = foreign.map(textOf);
    for (const secret of [
      bus.userTexts('shop', 'pump').creds,
      bus.userTexts('SYS-leaf-gateway-0', 'admin-leaf-gateway-0').creds,
    ])
      expect(texts).toContain(secret);
    expect(texts.join()).toContain(bus.accountTexts('shop').token);
    for (const content of foreign) {
      const asked = `/systemFiles/content?digests=${digestOf(content)}`;
      expect(await ask(fleet.node(1), asked)).toMatchObject({ status: 200, body: { contents: {} } });
      const { body } = await ask(fleet.node(0), asked);
      expect(body.contents).toEqual({ [digestOf(content)]: content });
    }
    const list = JSON.stringify((await ask(fleet.node(1), '/systemFiles')).body);
    expect(list).toContain(`bus-${uuidOfEntry('mill', 'saw')}`);
    expect(list).not.toContain(uuidOfEntry('shop', 'pump'));
    for (const content of foreign) expect(list).not.toContain(digestOf(content));
  });
});
