import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import { startDaemon } from '../../../../hack/process.ts';
import { waitFor } from '../../../../hack/wait.ts';
import { atEnd } from '../../../../testing/at-end.ts';
import { busClient, natsServer, type TestUser } from '../../../../testing/bus.ts';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { connectBus } from '../../../bus-client/connection.ts';
import { encodeData } from '../../../datastore/keyed-text.ts';
import { busOf, shopWithBus } from '../../bus-accounts/_fleet.ts';
import { accountSecretName, operatorSecretName } from '../../bus-accounts/rules/secret.ts';
import { RESOURCES } from '../../kinds.ts';
import { HUB_NAMES, memberHost, memberName } from '../rules/hub.ts';

/**
 * Keys are lost that the members of a hub depend on, and what the reconciler makes of it has them start again one after the other: real
 * servers with its configuration. No pod runs here; e2e/bus-hub-pods.test.ts has the loss of the account SYS with pods.
 */
const MEMBERS = 3;
const ENV = { BUS_ENABLED: 'true', BUS_HUB_REPLICAS: String(MEMBERS), BUS_HUB_IMAGE: 'mirror.example/nats:2.15' };
let fleet: InMemoryController;
beforeAll(async () => {
  fleet = await startInMemoryController(1, { env: ENV });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());
beforeEach(async () => {
  await fleet.reset();
  await expect.poll(() => bus.texts(HUB_NAMES.config), { timeout: 20_000 }).toHaveProperty('system-token');
  await expect.poll(() => bus.texts(HUB_NAMES.config)['system-token']).toBe(bus.accountTexts('SYS').token);
  await fleet.settle();
});

const bus = busOf(() => fleet);
const STATEFUL_SETS = { group: 'apps', version: 'v1', plural: 'statefulsets', kind: 'StatefulSet', namespaced: true };
const CONFIG_DIR = '/etc/nats/config';
const PORTS = { client: 4222, leaf: 7422, mqtt: 8883, cluster: 6222, monitor: 8222 } as const;
type Ports = Record<keyof typeof PORTS, number>;

const userOf = (account: string, name: string): TestUser => ({
  publicKey: bus.userToken(account, name)?.sub ?? '',
  creds: bus.userTexts(account, name).creds ?? '',
});

/** What replaces the members when it is another text. */
async function startOfMembers(): Promise<string | undefined> {
  const found = await fleet.cluster.client.find(STATEFUL_SETS, { namespace: NAMESPACE, name: HUB_NAMES.members });
  const { template } =
    (found as { spec?: { template?: { metadata: { annotations: Record<string, string> } } } })?.spec ?? {};
  return template?.metadata.annotations['skerry.dev/bus-config'];
}

/** A member as a pod runs it, with addresses of this machine. */
async function makeMember(index: number, all: readonly Ports[]) {
  const ports = all[index] as Ports;
  const dir = temporaryFolder();
  const name = memberName(index);
  mkdirSync(join(dir, 'config'));
  mkdirSync(join(dir, 'data'));
  const command = await natsServer();
  const logFile = join(dir, 'logs', `${name}.log`);
  const write = () => {
    const { [HUB_NAMES.config]: _, ...files } = bus.texts(HUB_NAMES.config);
    for (const [file, content] of Object.entries(files)) {
      let text = content.replaceAll(CONFIG_DIR, join(dir, 'config')).replaceAll('"/data/', `"${dir}/data/`);
      for (const [i, { cluster }] of all.entries())
        text = text.replace(`nats://${memberHost(i, NAMESPACE)}:${PORTS.cluster}`, `nats://127.0.0.1:${cluster}`);
      for (const [of, port] of Object.entries(PORTS))
        text = text.replace(`0.0.0.0:${port}`, `127.0.0.1:${ports[of as keyof Ports]}`);
      writeFileSync(join(dir, 'config', file), text, { mode: 0o600 });
    }
  };
  let daemon: Awaited<ReturnType<typeof startDaemon>> | undefined;
  atEnd(() => daemon?.stop());
  return {
    url: `nats://127.0.0.1:${ports.client}`,
    log: () => readFileSync(logFile, 'utf8'),
    /** Starts it, again where it runs, with the configuration of now; a pod is ready by the same probe. */
    async start() {
      await daemon?.stop();
      write();
      const args = ['--config', join(dir, 'config', 'server.conf')];
      const started = await startDaemon({ name, dir, command, args, env: { ...process.env, POD_NAME: name } });
      daemon = started;
    },
    async ready(probe = '/healthz?js-server-only=true') {
      await waitFor(
        async () => {
          daemon?.assertRunning();
          return (await fetch(`http://127.0.0.1:${ports.monitor}${probe}`)).ok;
        },
        { what: `the member ${name} to answer its probe` },
      );
    },
  };
}

async function makeMembers() {
  const ports = await Promise.all(
    Array.from({ length: MEMBERS }, async (): Promise<Ports> => {
      const entries = Object.keys(PORTS).map(async (of) => [of, await freePort()] as const);
      return Object.fromEntries(await Promise.all(entries)) as Ports;
    }),
  );
  return Promise.all(ports.map((_, index) => makeMember(index, ports)));
}

/** Sends a member the token of the shop, as the leader does. Rejects when the member refuses the user of the leader. */
async function pushShop(url: string, { creds }: TestUser): Promise<void> {
  const signal = AbortSignal.timeout(10_000);
  const connection = await connectBus({ servers: [url], creds, name: 'test', signal });
  try {
    await connection.push(bus.accountTexts('shop').token ?? '', signal);
  } finally {
    await connection.close();
  }
}

async function storedAt(url: string): Promise<number> {
  const client = await busClient(url, userOf('shop', 'pump'));
  const { state } = await (await client.jetstreamManager()).streams.info('ORDERS');
  await client.close();
  return state.messages;
}

/** Members with a stream of two messages, of which each has a copy. */
async function membersWithStream() {
  await bus.send('POST', '/application', shopWithBus());
  const members = await makeMembers();
  await Promise.all(members.map((member) => member.start()));
  for (const member of members) await member.ready('/healthz');
  const [first] = members as [(typeof members)[number]];
  for (const { url } of members) await pushShop(url, userOf('SYS', 'admin-hub'));
  const client = await busClient(first.url, userOf('shop', 'pump'));
  const stream = { name: 'ORDERS', subjects: ['orders.>'], num_replicas: MEMBERS };
  const add = async () => (await client.jetstreamManager()).streams.add(stream);
  await expect.poll(add, { timeout: 30_000 }).toBeDefined();
  for (const text of ['a', 'b']) await client.jetstream().publish('orders.1', text);
  await client.close();
  return members;
}

/** Deletes a Secret, and waits until the members are to be started again. */
async function lose(name: string): Promise<void> {
  const before = await startOfMembers();
  await fleet.cluster.client.delete(fleet.stores.secrets.resource, { namespace: NAMESPACE, name });
  await expect.poll(startOfMembers, { timeout: 20_000 }).not.toBe(before);
  await fleet.settle();
}

const answerOf = (url: string, user: TestUser) => pushShop(url, user).then(() => 'obeys', String);

test('members of a hub keep their streams, start again with the same account, and obey its next keys alone', async () => {
  const members = await membersWithStream();
  const former = userOf('SYS', 'admin-hub');
  await lose(accountSecretName(bus.account('SYS')?.status?.uuid ?? ''));
  const next = userOf('SYS', 'admin-hub');
  for (const { url, start, ready } of members) {
    await start();
    await ready();
    await expect.poll(() => answerOf(url, next), { timeout: 20_000 }).toBe('obeys');
    await expect.poll(() => storedAt(url).catch(String), { timeout: 20_000 }).toBe(2);
  }
  for (const { url, log } of members) {
    expect(await answerOf(url, former)).not.toBe('obeys');
    expect(log()).not.toMatch(/orphaned/);
  }
}, 120_000);

// The longer half is for the night.
test.runIf(process.env.SKERRY_NIGHTLY)(
  'members of a hub keep their streams when the key of the operator is lost, and start again with another one',
  async () => {
    const members = await membersWithStream();
    await lose(operatorSecretName());
    const leader = userOf('SYS', 'admin-hub');
    for (const { url, start, ready } of members) {
      await start();
      await ready();
      await expect.poll(() => answerOf(url, leader), { timeout: 20_000 }).toBe('obeys');
    }
    for (const { url, log } of members) {
      await expect.poll(() => storedAt(url).catch(String), { timeout: 20_000 }).toBe(2);
      expect(log()).not.toMatch(/orphaned/);
    }
  },
  120_000,
);

test('the account SYS that is deleted, and made again, has the key that members are started with', async () => {
  const before = bus.accountToken('SYS');
  const start = await startOfMembers();
  const object = bus.account('SYS');
  await fleet.cluster.client.delete(RESOURCES.busAccounts, { namespace: NAMESPACE, name: object?.metadata.name ?? '' });
  await expect
    .poll(() => [undefined, object?.metadata.uid].includes(bus.account('SYS')?.metadata.uid), { timeout: 20_000 })
    .toBe(false);
  await expect.poll(() => bus.accountToken('SYS')?.iat, { timeout: 20_000 }).toBeGreaterThan(before?.iat ?? Number.NaN);
  await fleet.settle();
  expect(bus.accountToken('SYS')).toMatchObject({
    sub: before?.sub,
    nats: expect.not.objectContaining({ revocations: expect.anything() }),
  });
  expect(bus.accountToken('SYS')?.nats.signing_keys).toContain(bus.userToken('SYS', 'admin-hub')?.iss);
  await expect.poll(startOfMembers, { timeout: 20_000 }).not.toBe(start);
});

test('members stay as they are when the key of their streams is lost, until it is put back, or nobody has it any more', async () => {
  const ready = () => bus.readyOf(fleet.stores.busHubs.list()[0]);
  const { client } = fleet.cluster;
  const { resource } = fleet.stores.secrets;
  const [start, texts] = [await startOfMembers(), bus.texts(HUB_NAMES.config)];
  const secret = fleet.stores.secrets.get(NAMESPACE, HUB_NAMES.config);
  await client.delete(resource, { namespace: NAMESPACE, name: HUB_NAMES.config });
  await expect.poll(ready, { timeout: 20_000 }).toMatchObject({ status: 'False', reason: 'BusHubKeyLost' });
  expect(bus.texts(HUB_NAMES.config)).toEqual({});
  expect(await startOfMembers()).toBe(start);

  const { labels = {} } = secret?.metadata ?? {};
  const metadata = { name: HUB_NAMES.config, namespace: NAMESPACE, labels };
  // As docs/resources/bus-hub.md finds it in a member.
  const [, key = ''] = /^ {2}key: "(.*)"$/m.exec(texts['server.conf'] ?? '') ?? [];
  await client.create(resource, { apiVersion: 'v1', kind: 'Secret', metadata, data: encodeData({ 'store-key': key }) });
  await expect.poll(ready, { timeout: 20_000 }).toMatchObject({ reason: 'BusServersBehind' });
  expect(bus.texts(HUB_NAMES.config)).toEqual(texts);
  expect(await startOfMembers()).toBe(start);

  await client.delete(resource, { namespace: NAMESPACE, name: HUB_NAMES.config });
  await expect.poll(ready, { timeout: 20_000 }).toMatchObject({ reason: 'BusHubKeyLost' });
  await client.delete(STATEFUL_SETS, { namespace: NAMESPACE, name: HUB_NAMES.members });
  await expect.poll(startOfMembers, { timeout: 20_000 }).toBeDefined();
  expect(bus.texts(HUB_NAMES.config)['store-key']).not.toBe(texts['store-key']);
}, 60_000);
