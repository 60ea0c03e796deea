import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type InMemoryController, NAMESPACE, startInMemoryController } from '../../../testing/in-memory-controller.ts';
import type { BusUser } from '../../api/v3/bus-user.ts';
import { nodeUuid, uuidOf } from '../../rules/identity.ts';
import type { MicroserviceView } from '../../wire/agent.ts';
import { busOf, entryWithBus, shopWithBus } from '../bus-accounts/_fleet.ts';
import { userSecretName } from '../bus-accounts/rules/secret.ts';

/** What the nodes of an installation get of the message bus, and whom an edit reaches. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(2, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await setMode(undefined);
  await fleet.reset();
});

const bus = busOf(() => fleet);
const stateOf = (i: number) => fleet.desired(nodeUuid(fleet.node(i)));
const filesOf = (i: number, set: string): Record<string, string> => {
  const { files = {} } = stateOf(i)?.systemFiles.find(({ name }) => name === set) ?? {};
  return Object.fromEntries(
    Object.entries(files).map(([path, content]) => [path, Buffer.from(content, 'base64').toString()]),
  );
};
const tokensOf = (i: number) =>
  Object.entries(filesOf(i, 'bus-config'))
    .filter(([path]) => path.startsWith('tokens-'))
    .map(([, text]) => text)
    .join('');
const credsSets = (i: number) =>
  (stateOf(i)?.systemFiles ?? []).map(({ name }) => name).filter((name) => /^bus-.*-.*-/.test(name));
const viewsOf = (i: number, application: string) =>
  (stateOf(i)?.microservices ?? []).filter((one): one is MicroserviceView => one.application === application);
async function setUpstreams(upstreamBusServers: string[]) {
  fleet.cluster.edit(fleet.node(0), (node) => {
    node.spec = { ...node.spec, upstreamBusServers };
  });
  await fleet.settle();
}
async function setMode(busMode: 'none' | 'leaf' | 'server' | undefined, host?: string) {
  fleet.cluster.edit(fleet.node(1), (node) => {
    const { busMode: _, host: __, ...spec } = node.spec;
    node.spec = { ...spec, ...(busMode && { busMode }), ...(host && { host }) };
  });
  await fleet.settle();
}
const digestOf = (i: number) => stateOf(i)?.digests.systemFiles;
async function createShop(changes: object = {}) {
  expect((await bus.send('POST', '/application', shopWithBus(changes))).status).toBe(201);
}
async function setHub(host: string) {
  const { resource } = fleet.stores.busHubs;
  await fleet.cluster.client.create(resource, {
    apiVersion: 'skerry.dev/v3',
    kind: resource.kind,
    metadata: { name: 'bus-hub', namespace: NAMESPACE },
    spec: { host, isExternal: true },
  } as never);
  await fleet.settle();
}

describe('a leaf', () => {
  test('starts with its system account, and has the accounts with access on it alone', async () => {
    await createShop();
    await createShop({ name: 'mill', microservices: [entryWithBus('saw', { agentName: 'gateway-1' })] });
    const [shop, mill] = [bus.accountTexts('shop').token, bus.accountTexts('mill').token];
    expect(tokensOf(0)).toContain(bus.accountTexts('SYS-leaf-gateway-0').token);
    expect(tokensOf(0)).toContain(shop);
    expect(tokensOf(0)).not.toContain(mill);
    expect(tokensOf(1)).toContain(mill);
    expect(tokensOf(0)).not.toContain(bus.accountTexts('SYS').token);
    expect(filesOf(0, 'bus-system')['system.creds']).toBe(
      bus.userTexts('SYS-leaf-gateway-0', 'admin-leaf-gateway-0').creds,
    );
  });

  test('links its accounts once there is a hub, and applications reach the hub from nodes without a server', async () => {
    await setMode('none');
    const refused = await bus.send(
      'POST',
      '/application',
      shopWithBus({ microservices: [entryWithBus('saw', { agentName: 'gateway-1' })] }),
    );
    expect(refused).toMatchObject({ status: 400, body: { code: 'BUS_NOT_REACHABLE' } });
    await createShop();
    expect(filesOf(0, 'bus-config')['server.conf']).not.toContain('remotes');
    const before = filesOf(0, 'bus-config').start;
    await setHub('hub.example');
    expect(filesOf(0, 'bus-config')['server.conf']).toContain('"tls://hub.example:7422"');
    expect(filesOf(0, 'bus-config').start).toBe(before);
    await createShop({ name: 'mill', microservices: [entryWithBus('saw', { agentName: 'gateway-1' })] });
    expect(viewsOf(1, 'mill')).toMatchObject([{ env: [{}, { value: 'nats://hub.example:4222' }] }]);
  });

  test.each([
    ['alone is not Ready through a change of its files', true, 'True'],
    ['is not Ready, as all parts of the platform, where the agent does not report each set of files', false, 'False'],
  ])('%s that its machine does not have yet, and says so at once', async (_, reportsSets, certificates) => {
    await bus.send('POST', '/bus/account-rules', { name: 'few', maxConnections: 5 });
    await createShop();
    const condition = (part: string) => fleet.node(0).status?.conditions?.find(({ type }) => type === part);
    fleet.report(fleet.node(0));
    const files = { digest: digestOf(0) ?? '' };
    if (!reportsSets) fleet.observe(fleet.node(0), { reportedAt: fleet.time.now, report: { systemFiles: files } });
    await fleet.settle();
    expect(condition('CertificatesReady')).toMatchObject({ status: 'True' });
    fleet.time.now += 60_000;
    fleet.poll(fleet.node(0));
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: true, busRule: 'few' };
    });
    expect(condition('BusReady')).toMatchObject({ status: 'False', reason: 'FilesPending' });
    expect(condition('CertificatesReady')).toMatchObject({ status: certificates });
  });

  test.each(['uuid', 'name'] as const)(
    'links to the server that it names by its %s, and follows its host',
    async (by) => {
      await createShop();
      await setMode('server', 'first.example');
      const server = fleet.node(1);
      await setUpstreams([by === 'uuid' ? nodeUuid(server) : server.metadata.name]);
      expect(filesOf(0, 'bus-config')['server.conf']).toContain('"tls://first.example:7422"');
      await setMode('server', 'second.example');
      expect(filesOf(0, 'bus-config')['server.conf']).toContain('"tls://second.example:7422"');
      await setUpstreams([]);
    },
  );

  test('is reached by an edit of its own accounts alone', async () => {
    await createShop();
    await createShop({ name: 'mill', microservices: [entryWithBus('saw', { agentName: 'gateway-1' })] });
    const [zero, one] = [digestOf(0), digestOf(1)];
    await bus.edit('mill', (spec) => {
      const [saw] = spec.microservices ?? [];
      if (saw) saw.busConfig = { busAccess: true, busRule: 'default-leaf-user' };
    });
    expect(digestOf(0)).toBe(zero);
    expect(digestOf(1)).not.toBe(one);
  });
});

test('a node says nothing of a bus server once the bus is off, although the agent reports a running server', async () => {
  await using off = await startInMemoryController(1);
  const busServerOf = async (of: InMemoryController) => {
    of.time.now += 60_000;
    const report = { daemonStatus: 'RUNNING' as const, busServer: { isCurrent: true } };
    of.observe(of.node(0), { reportedAt: of.time.now, report });
    await of.settle();
    return of.node(0).status?.busServer;
  };
  expect([await busServerOf(fleet), await busServerOf(off)]).toEqual([{ isCurrent: true }, undefined]);
});

test('the streams of a node have the same key after it was without a server', async () => {
  const keyOf = () => filesOf(1, 'bus-config')['server.conf']?.match(/key: "([^"]{44})"/)?.[1];
  const before = keyOf();
  expect(before).toBeDefined();
  await setMode('none');
  expect(filesOf(1, 'bus-config')).toEqual({});
  await setMode('leaf');
  expect(keyOf()).toBe(before);
});

describe('a server', () => {
  test('has all accounts but the system accounts of leafs, with a link for each application', async () => {
    await setMode('server');
    await createShop();
    await setHub('hub.example');
    for (const name of ['SYS', 'shop', 'controller']) expect(tokensOf(1)).toContain(bus.accountTexts(name).token);
    expect(tokensOf(1)).not.toContain(bus.accountTexts('SYS-leaf-gateway-0').token);
    expect(filesOf(1, 'bus-config')['server.conf']?.match(/account: "/g)).toHaveLength(2);
  });

  test('gets the token of an edited account, and other credentials of a link', async () => {
    await setMode('server');
    await createShop();
    await setHub('hub.example');
    const credsOfLink = () => filesOf(1, 'bus-config')[`creds/${bus.accountToken('shop')?.sub}.creds`];
    const former = { token: bus.accountTexts('shop').token, creds: credsOfLink() };
    expect(tokensOf(1)).toContain(former.token);
    await bus.send('POST', '/bus/account-rules', { name: 'few', maxConnections: 3 });
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: true, busRule: 'few' };
    });
    const { token } = bus.accountTexts('shop');
    expect(token).not.toBe(former.token);
    expect(tokensOf(1)).toContain(token);
    const { resource } = fleet.stores.secrets;
    const name = userSecretName(uuidOf(bus.user('shop', 'leaf-gateway-1') as BusUser));
    await fleet.cluster.client.delete(resource, { namespace: NAMESPACE, name });
    await fleet.settle();
    expect(former.creds).toBeDefined();
    expect(credsOfLink()).toBe(bus.userTexts('shop', 'leaf-gateway-1').creds);
    expect(credsOfLink()).not.toBe(former.creds);
  });
});

describe('the container of a microservice with access', () => {
  test('has its own credentials, others when they are replaced, and none once access is turned off', async () => {
    await createShop();
    expect(credsSets(0)).toHaveLength(2);
    const [{ uuid } = { uuid: '' }] = viewsOf(0, 'shop').filter(({ env }) => env.length > 0);
    const creds = () => Object.values(filesOf(0, `bus-${uuid}`))[0];
    const texts = ['pump', 'valve'].map((name) => bus.userTexts('shop', name).creds);
    expect(texts).toContain(creds());
    const before = viewsOf(0, 'shop').map(({ revision }) => revision);
    const former = creds();
    await bus.edit('shop', (spec) => {
      for (const entry of spec.microservices ?? []) if (entry.busConfig) entry.busConfig.busRule = 'default-leaf-user';
    });
    expect(creds()).not.toBe(former);
    expect(viewsOf(0, 'shop').map(({ revision }) => revision)).toEqual(before);
    await bus.edit('shop', (spec) => {
      spec.busConfig = { busAccess: false };
    });
    expect(credsSets(0)).toEqual([]);
    expect(JSON.stringify(viewsOf(0, 'shop'))).not.toContain('BUS_CREDS_PATH');
  });

  test('goes with it to another node, which alone has its credentials then', async () => {
    await createShop({ microservices: [entryWithBus('pump')] });
    await bus.edit('shop', (spec) => {
      const [pump] = spec.microservices ?? [];
      if (pump) pump.agent = { uuid: nodeUuid(fleet.node(1)) };
    });
    fleet.report(fleet.node(0));
    await fleet.settle();
    fleet.report(fleet.node(1));
    await fleet.settle();
    expect([credsSets(0).length, credsSets(1).length]).toEqual([0, 1]);
  });
});
