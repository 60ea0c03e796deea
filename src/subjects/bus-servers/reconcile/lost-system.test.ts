import { readFileSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { atEnd } from '../../../../testing/at-end.ts';
import { busClient, startBusServer, type TestServer, type TestUser } from '../../../../testing/bus.ts';
import { tlsFiles } from '../../../../testing/bus-tls.ts';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { connectBus } from '../../../bus-client/connection.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { busOf, entryWithBus, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { accountSecretName, operatorSecretName } from '../../bus-accounts/rules/secret.ts';
import { nodePorts, startNodeServer } from '../_node-server.ts';

/** The Secret of an account that servers are started with is lost: real servers obey its former keys until they have its next token. */
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: { BUS_ENABLED: 'true' } });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(() => fleet.reset());

const bus = busOf(() => fleet);
const until = (read: () => unknown) => expect.poll(read, { timeout: 20_000 });
const userOf = (account: string, name: string): TestUser => ({
  publicKey: bus.userToken(account, name)?.sub ?? '',
  creds: bus.userTexts(account, name).creds ?? '',
});
const answerTo = (url: string, user: TestUser) =>
  busClient(url, user).then(
    async (client) => {
      await client.close();
      return 'in';
    },
    () => 'refused',
  );

/** Whether a server takes tokens of accounts from who has these credentials. */
async function obeys(url: string, { creds }: TestUser): Promise<boolean> {
  const signal = AbortSignal.timeout(10_000);
  const connection = await connectBus({ servers: [url], creds, name: 'test', signal }).catch(() => undefined);
  if (!connection) return false;
  try {
    await connection.push(bus.accountTexts('shop').token ?? '', signal);
    return true;
  } catch {
    return false;
  } finally {
    await connection.close();
  }
}

/** Deletes the Secret of an account; a later token of the same key follows. */
async function lose(account: string): Promise<void> {
  const former = bus.accountToken(account);
  const name = accountSecretName(bus.account(account)?.status?.uuid ?? '');
  await fleet.cluster.client.delete(fleet.stores.secrets.resource, { namespace: NAMESPACE, name });
  await until(() => (bus.accountToken(account)?.iat ?? 0) > (former?.iat ?? 0)).toBe(true);
  await fleet.settle();
  expect(bus.accountToken(account)?.sub).toBe(former?.sub);
}

/** A client with a stream, whose connection counts when it ends. */
async function clientWithStream(url: string) {
  const client = await busClient(url, userOf('shop', 'pump'));
  const manager = await client.jetstreamManager();
  await manager.streams.add({ name: 'ORDERS', subjects: ['orders.>'] });
  await client.jetstream().publish('orders.1', 'a');
  return client;
}
async function storedAt(url: string): Promise<number> {
  const client = await busClient(url, userOf('shop', 'pump'));
  return (await (await client.jetstreamManager()).streams.info('ORDERS')).state.messages;
}

describe('a server of the hub', () => {
  const readyOf = () => bus.readyOf(fleet.stores.busHubs.list()[0]);
  const systemOf = () => ({ key: bus.accountToken('SYS')?.sub ?? '', token: bus.accountTexts('SYS').token ?? '' });

  async function startHub(): Promise<TestServer> {
    const { key, token } = systemOf();
    const server = await startBusServer({
      operator: bus.texts(operatorSecretName()).token ?? '',
      system: { publicKey: key, token: () => token },
    });
    await bus.send('PUT', '/bus/hub', { host: '127.0.0.1', serverPort: server.serverPort });
    await until(readyOf).toMatchObject({ status: 'True' });
    return server;
  }

  test('obeys the next keys of its account alone at once, and keeps its clients, while the leader is connected to it', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    const former = userOf('SYS', 'admin-hub');
    const open = await clientWithStream(server.url);
    await lose('SYS');
    await until(() => obeys(server.url, userOf('SYS', 'admin-hub'))).toBe(true);
    expect(await obeys(server.url, former)).toBe(false);
    await until(readyOf).toMatchObject({ status: 'True' });
    await open.flush();
  }, 120_000);

  test('keeps its clients while it obeys the former keys, and obeys the next ones alone once it is started with their token', async () => {
    await bus.send('POST', '/application', shopWithBus());
    const server = await startHub();
    const [former, before] = [userOf('SYS', 'admin-hub'), systemOf()];
    const [pump, valve] = [userOf('shop', 'pump'), userOf('shop', 'valve')];
    expect(await obeys(server.url, former)).toBe(true);
    await (await clientWithStream(server.url)).close();
    // The leader has no connection when the keys are lost.
    await server.kill();
    await lose('SYS');
    await server.start();
    await until(readyOf).toMatchObject({ status: 'False', reason: 'BusServersBehind' });
    expect(await obeys(server.url, userOf('SYS', 'admin-hub'))).toBe(false);
    for (const user of [pump, valve]) expect(await answerTo(server.url, user)).toBe('in');
    await bus.edit('shop', (spec) => {
      Object.assign(spec.microservices?.[1] ?? {}, { busConfig: { busAccess: false } });
    });
    await until(() => Object.keys(bus.revoked('shop'))).toEqual([valve.publicKey]);

    // What the members of a hub in the cluster are replaced with.
    const text = readFileSync(server.configFile, 'utf8').replaceAll(before.token, systemOf().token);
    await server.kill();
    writeFileSync(server.configFile, text);
    await server.start();
    await until(readyOf).toMatchObject({ status: 'True' });
    expect(await answerTo(server.url, pump)).toBe('in');
    expect(await answerTo(server.url, valve)).toBe('refused');
    expect(await obeys(server.url, former)).toBe(false);
    expect(await storedAt(server.url)).toBe(1);
  }, 120_000);
});

describe('the server of a leaf', () => {
  const filesOf = (set: string): Record<string, string> => {
    const { files = {} } = fleet.desired(nodeUuid(fleet.node(0)))?.systemFiles.find(({ name }) => name === set) ?? {};
    return Object.fromEntries(
      Object.entries(files).map(([path, content]) => [path, Buffer.from(content, 'base64').toString()]),
    );
  };
  const system = (): TestUser => ({ publicKey: '', creds: filesOf('bus-system')['system.creds'] ?? '' });

  test('is replaced for other keys of its account, which alone it obeys then, and keeps clients and streams', async () => {
    const ports = await nodePorts();
    fleet.cluster.edit(fleet.node(0), ({ spec }) => Object.assign(spec, ports));
    atEnd(() =>
      fleet.cluster.edit(fleet.node(0), ({ spec }) => {
        for (const port of Object.keys(ports)) delete spec[port as keyof typeof ports];
      }),
    );
    await bus.send('POST', '/application', shopWithBus({ microservices: [entryWithBus('pump')] }));
    await until(() => filesOf('bus-config')['server.conf']).toContain(`${ports.busServerPort}`);
    const before = filesOf('bus-config');
    const server = await startNodeServer(before, ports, await tlsFiles());
    const former = system();
    expect(await obeys(server.url, former)).toBe(true);
    const open = await clientWithStream(server.url);
    const pump = userOf('shop', 'pump');

    await lose('SYS-leaf-gateway-0');
    await until(() => system().creds === former.creds).toBe(false);
    // Another content of it replaces the container.
    expect(filesOf('bus-config').start).not.toBe(before.start);
    expect(await obeys(server.url, system())).toBe(false);
    await open.flush();
    server.write(filesOf('bus-config'));
    await server.restart();
    expect(await obeys(server.url, system())).toBe(true);
    expect(await obeys(server.url, former)).toBe(false);
    expect(await answerTo(server.url, pump)).toBe('in');
    expect(await storedAt(server.url)).toBe(1);
  }, 120_000);
});
