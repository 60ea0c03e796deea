import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { connect, credsAuthenticator, Events, type NatsConnection } from 'nats';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { atEnd } from '../../../../testing/at-end.ts';
import { busClient, startBusServer, type TestServer } from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import { type InMemoryController, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { nodeUuid, uuidOf } from '../../../rules/identity.ts';
import { publicNkey } from '../../../signer/nkeys.ts';
import { busOf, entryWithBus, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { trustedOperators } from '../../bus-accounts/rules/operator.ts';
import { accountSecretName, operatorSecretName } from '../../bus-accounts/rules/secret.ts';
import { nodePorts, startNodeServer } from '../_node-server.ts';

/** Another key of the operator, with a real server as the hub. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const until = (what: () => unknown) => expect.poll(what, { timeout: 20_000 });
const texts = () => bus.texts(operatorSecretName());
const operatorKey = () => publicNkey(texts().seed ?? '');
const signers = () => [...new Set(['SYS', 'controller', 'shop'].map((name) => bus.accountToken(name)?.iss))];
const messageOf = () =>
  fleet.stores.busOperators.list()[0]?.status?.conditions?.find(({ type }) => type === 'Ready')?.message ?? '';
const status = () => fleet.stores.busHubs.list()[0]?.status;

/** A server that trusts the present operator, and is the hub. */
async function startHub(): Promise<TestServer> {
  expect((await bus.send('POST', '/application', shopWithBus())).status).toBe(201);
  const system = { publicKey: bus.accountToken('SYS')?.sub ?? '', token: () => bus.accountTexts('SYS').token ?? '' };
  const server = await startBusServer({ operator: texts().token ?? '', system });
  await bus.send('PUT', '/bus/hub', { host: '127.0.0.1', serverPort: server.serverPort });
  await until(status).toMatchObject({ answering: 1, trusted: [operatorKey()], operator: operatorKey() });
  return server;
}
/** Starts a server again with the operators that servers trust now. */
async function startTrusting(server: TestServer): Promise<void> {
  const { sub, token } = { sub: bus.accountToken('SYS')?.sub, token: bus.accountTexts('SYS').token };
  const text = readFileSync(server.configFile, 'utf8')
    .replace(/^operator: \[[^\]]*\]/m, `operator: ${JSON.stringify(trustedOperators(texts()))}`)
    .replace(new RegExp(`"?${sub}"?: ".*"`), `${sub}: "${token}"`);
  writeFileSync(server.configFile, text);
  await server.start();
}

interface Counted {
  client: NatsConnection;
  /** how often its connection ended, and how often it connected again */
  ended: number;
  again: number;
}
/** A client that connects again by itself, as programs do. */
async function countedClient({ url }: { url: string }, creds: string): Promise<Counted> {
  const client = await connect({
    servers: url,
    authenticator: credsAuthenticator(new TextEncoder().encode(creds)),
    maxReconnectAttempts: -1,
    reconnectTimeWait: 50,
  });
  atEnd(() => client.close());
  const counted: Counted = { client, ended: 0, again: 0 };
  void (async () => {
    for await (const { type } of client.status()) {
      if (type === Events.Disconnect) counted.ended++;
      if (type === Events.Reconnect) counted.again++;
    }
  })();
  return counted;
}

/** Another leader continues after the longest time for servers that are silent. */
async function waitLong() {
  fleet.time.now += 11 * 60_000;
  await fleet.nextTerm();
  await fleet.settle();
}

test('a server of the hub that answers is waited for until it was started with the next key', async () => {
  const server = await startHub();
  const former = operatorKey();
  await bus.send('POST', '/bus/operator/rotate');
  await waitLong();
  await until(status).toMatchObject({ answering: 1, trusted: [former] });
  await until(messageOf).toContain('servers of the hub have not been started with its next key');
  expect(messageOf()).toContain('the token next-token of the Secret skerry-bus-operator');
  expect(signers()).toEqual([former]);

  await server.kill();
  await startTrusting(server);
  await until(() => signers().includes(former)).toBe(false);
  const next = operatorKey();
  expect(signers()).toEqual([next]);
  for (const node of [fleet.node(0), fleet.spare]) fleet.report(node);
  // The former key goes once the server has every token of the next one.
  await until(() => trustedOperators(texts()).length).toBe(1);
  expect(status()).toMatchObject({ operator: next, current: 1 });
}, 90_000);

test('a client connects once again for each start of its server, and never for a token that another operator signs', async () => {
  const server = await startHub();
  await until(status).toMatchObject({ answering: 1, current: 1 });
  const users = ['pump', 'valve'];
  const clients: Counted[] = [];
  for (const name of users) clients.push(await countedClient(server, bus.userTexts('shop', name).creds ?? ''));
  const counts = () => clients.map(({ ended, again }) => [ended, again]);
  const former = operatorKey();
  await bus.send('POST', '/bus/operator/rotate');
  await waitLong();
  expect(counts()).toEqual(users.map(() => [0, 0]));

  await server.kill();
  await startTrusting(server);
  await until(() => operatorKey() !== former).toBe(true);
  await until(() => status()?.operator).toBe(operatorKey());
  await waitLong();
  await until(() => trustedOperators(texts()).length).toBe(1);
  await until(counts).toEqual(users.map(() => [1, 1]));

  await server.kill();
  await startTrusting(server);
  await until(status).toMatchObject({ answering: 1, current: 1, operator: operatorKey() });
  await until(counts).toEqual(users.map(() => [2, 2]));
  // Nothing is on its way any more that could end a connection.
  for (const { client } of clients) await client.flush();
  await fleet.settle();
  expect(counts()).toEqual(users.map(() => [2, 2]));
}, 120_000);

test('the server of a machine is started twice in a rotation, and a client there connects again as often', async () => {
  const ports = await nodePorts();
  fleet.cluster.edit(fleet.node(0), ({ spec }) => Object.assign(spec, ports));
  atEnd(() =>
    fleet.cluster.edit(fleet.node(0), ({ spec }) => {
      for (const port of Object.keys(ports)) delete spec[port as keyof typeof ports];
    }),
  );
  const config = () => {
    const sets = fleet.desired(nodeUuid(fleet.node(0)))?.systemFiles ?? [];
    const files = Object.entries(sets.find(({ name }) => name === 'bus-config')?.files ?? {});
    return Object.fromEntries(files.map(([path, text]) => [path, Buffer.from(text, 'base64').toString()]));
  };
  await bus.send('POST', '/application', shopWithBus({ microservices: [entryWithBus('pump')] }));
  await until(() => config()['server.conf']).toContain(`${ports.busServerPort}`);
  const server = await startNodeServer(config(), ports, await tlsFiles());
  const pump = await countedClient(server, bus.userTexts('shop', 'pump').creds ?? '');
  let [starts, started] = [0, config().start];
  /** Does what an agent does: another content of the file `start` replaces the container. */
  const follow = async () => {
    const files = config();
    server.write(files);
    if (files.start !== started) {
      [starts, started] = [starts + 1, files.start];
      await server.restart();
      await until(() => pump.again).toBe(starts);
    }
    for (const node of [fleet.node(0), fleet.spare]) fleet.report(node);
    await fleet.settle();
  };
  await follow();
  const former = operatorKey();
  await bus.send('POST', '/bus/operator/rotate');
  const isOver = () => operatorKey() !== former && trustedOperators(texts()).length === 1;
  await until(async () => {
    await follow();
    return isOver();
  }).toBe(true);
  await follow();
  await pump.client.flush();
  expect([starts, pump.ended, pump.again]).toEqual([2, 2, 2]);
}, 120_000);

test('a server of the hub that is silent holds a rotation up for ten minutes', async () => {
  const server = await startHub();
  const former = operatorKey();
  await server.kill();
  await until(() => status()?.answering).toBe(0);
  await bus.send('POST', '/bus/operator/rotate');
  await until(messageOf).toContain('1 of 1 servers of the hub do not answer, which holds it up for 10 minutes at most');
  expect(signers()).toEqual([former]);
  await waitLong();
  await until(() => signers().includes(former)).toBe(false);
}, 90_000);

test.each([
  ['missed', false],
  ['lost all tokens after', true],
])(
  'a server that %s the last token of an account refuses its users once it trusts the next operator alone',
  async (_, isLost) => {
    const server = await startHub();
    await bus.send('POST', '/application', shopWithBus({ name: 'mill' }));
    const shop = bus.account('shop');
    if (!shop) throw new Error('no account');
    const users = { gone: bus.userTexts('shop', 'pump'), stays: bus.userTexts('mill', 'pump') };
    const comes = async ({ creds = '' }: { creds?: string }) => {
      const client = await busClient(server.url, { publicKey: '', creds });
      await client.close();
    };
    await until(() => comes(users.gone).then(() => 'in', String)).toBe('in');
    await until(() => comes(users.stays).then(() => 'in', String)).toBe('in');
    await server.kill();
    await bus.edit('shop', (spec) => Object.assign(spec, { busConfig: { busAccess: false } }));
    const lastToken = () => bus.decode(bus.texts(accountSecretName(uuidOf(shop))).token);
    await until(() => lastToken()?.nats.revocations?.['*']).toBeGreaterThan(0);

    const former = operatorKey();
    await bus.send('POST', '/bus/operator/rotate');
    await waitLong();
    await until(() => operatorKey() !== former).toBe(true);
    await waitLong();
    await until(() => trustedOperators(texts()).length).toBe(1);
    expect(lastToken()?.iss).toBe(former);

    if (isLost) for (const file of readdirSync(join(server.dir, 'tokens'))) rmSync(join(server.dir, 'tokens', file));
    await startTrusting(server);
    await until(status).toMatchObject({ answering: 1, current: 1, operator: operatorKey() });
    const { status: isReady, message } =
      fleet.stores.busHubs.list()[0]?.status?.conditions?.find(({ type }) => type === 'Ready') ?? {};
    expect([isReady, message]).toEqual(['True', expect.any(String)]);
    await expect(comes(users.gone)).rejects.toThrow('Authorization');
    await comes(users.stays);
  },
  120_000,
);
