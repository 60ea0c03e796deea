import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { makeBus, startBusServer, type TestConfig, type TestUser } from '../../testing/bus.ts';
import { tlsFiles } from '../../testing/bus-tls.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { createFakeSocket } from './_fake-socket.ts';
import { createConfiguredRelay } from './configured-relay.ts';

const ASKED = { node: 'n', id: 's', kind: 'exec', microservice: undefined } as const;

/** A replica for which nothing is configured, in an installation whose bus is on. */
function replica(hub: { servers: () => readonly string[]; ca?: () => string; user: TestUser }) {
  const joined: string[] = [];
  const internally: string[] = [];
  const relay = createConfiguredRelay({
    settings: { by: 'internal', requiresBroker: true, failsFast: true },
    identity: 'replica',
    internal: {
      expect: (id) => {
        internally.push(`expect ${id}`);
        return () => {};
      },
      connect: (_agent, _address, { id }) => void internally.push(`connect ${id}`),
      drain() {},
      [Symbol.dispose]() {},
    },
    hub: { ...hub, credentials: () => new TextEncoder().encode(hub.user.creds) },
    sessions: {
      join(asked, socket) {
        joined.push(asked.id);
        socket.listen({ message() {}, full() {}, drained() {}, closed() {} });
        return undefined;
      },
      end() {},
      hasAgent: () => false,
    },
    isAlone: () => false,
    clock: systemClock,
    log: silentLog,
  });
  onTestFinished(() => relay[Symbol.dispose]());
  return { relay, joined, internally };
}

/** A bus with the account `controller`, whose user may use its own subjects alone. */
async function startHub(config: TestConfig = {}) {
  const bus = makeBus();
  const account = bus.account('controller');
  const own = ['controller.relay.v1.>'];
  const server = await startBusServer(bus, { ...config, preload: { [account.publicKey]: account.token() } });
  return { server, user: account.user('controller', { pubAllow: own, subAllow: own }) };
}

test('sessions pass between replicas over the hub by themselves, as the account controller', async () => {
  const { server, user } = await startHub();
  const hub = { servers: () => [server.url], user };
  const [here, there] = [replica(hub), replica(hub)];
  const stop = here.relay.expect('s', 'exec');
  there.relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  await expect.poll(() => here.joined).toEqual(['s']);
  stop();
  expect([...here.internally, ...there.internally]).toEqual([]);
});

test('sessions pass over a hub whose clients have to connect by TLS', async () => {
  const files = await tlsFiles();
  const { server, user } = await startHub({ clientTls: files });
  const hub = {
    servers: () => [`tls://127.0.0.1:${server.serverPort}`],
    ca: () => readFileSync(files.ca, 'utf8'),
    user,
  };
  const [here, there] = [replica(hub), replica(hub)];
  const stop = here.relay.expect('s', 'exec');
  there.relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  await expect.poll(() => here.joined).toEqual(['s']);
  stop();
});

test('sessions pass over the internal channel while the hub is not known', async () => {
  const { user } = await startHub();
  const { relay, internally } = replica({ servers: () => [], user });
  relay.expect('s', 'exec');
  relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  expect(internally).toEqual(['expect s', 'connect s']);
});

test('sessions pass over the internal channel after 5 s while the hub is away', async () => {
  const { server, user } = await startHub();
  await server.kill();
  const { relay, internally } = replica({ servers: () => [server.url], user });
  relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  await expect.poll(() => internally, { timeout: 15_000 }).toEqual(['connect s']);
});

test('a hub that moves is found at its new address', async () => {
  const [first, second] = [await startHub(), await startHub()];
  let at = first;
  const hub = {
    servers: () => [at.server.url],
    get user() {
      return at.user;
    },
  };
  const [here, there] = [replica(hub), replica(hub)];
  here.relay.expect('a', 'exec');
  there.relay.connect(createFakeSocket(), '10.0.0.1:1', { ...ASKED, id: 'a' });
  await expect.poll(() => here.joined).toEqual(['a']);
  at = second;
  await first.server.kill();
  here.relay.expect('b', 'exec');
  await expect
    .poll(
      () => {
        there.relay.connect(createFakeSocket(), '10.0.0.1:1', { ...ASKED, id: 'b' });
        return here.joined.includes('b');
      },
      { timeout: 30_000, interval: 1_000 },
    )
    .toBe(true);
}, 45_000);
