import { readFileSync } from 'node:fs';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeBus, startBusServer, type TestConfig, type TestUser } from '../../testing/bus.ts';
import { tlsFiles } from '../../testing/bus-tls.ts';
import { makeRouterTrust, startRouter } from '../../testing/router.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { createFakeSocket } from './_fake-socket.ts';
import { type ConfiguredRelayOptions, createConfiguredRelay } from './configured-relay.ts';

let count = 0;
const ASKED = { node: 'n', id: 's', kind: 'exec', microservice: undefined } as const;

/** A replica, with what its installation has. */
function replica(of: Pick<ConfiguredRelayOptions, 'settings' | 'hub' | 'defaultRouter'>) {
  const joined: string[] = [];
  const internally: string[] = [];
  const relay = createConfiguredRelay({
    ...of,
    identity: `replica-${count++}`,
    internal: {
      expect: (id) => {
        internally.push(`expect ${id}`);
        return () => {};
      },
      connect: (_agent, _address, { id }) => void internally.push(`connect ${id}`),
      drain() {},
      [Symbol.dispose]() {},
    },
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

/** A replica for which nothing is configured, in an installation whose bus is on. */
const onBus = (hub: { servers: () => readonly string[]; ca?: () => string; user: TestUser }) =>
  replica({
    settings: { by: 'internal', requiresBroker: true, failsFast: true },
    hub: { ...hub, credentials: () => new TextEncoder().encode(hub.user.creds) },
  });

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
  const [here, there] = [onBus(hub), onBus(hub)];
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
  const [here, there] = [onBus(hub), onBus(hub)];
  const stop = here.relay.expect('s', 'exec');
  there.relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  await expect.poll(() => here.joined).toEqual(['s']);
  stop();
});

test('sessions pass over the internal channel while the hub is not known', async () => {
  const { user } = await startHub();
  const { relay, internally } = onBus({ servers: () => [], user });
  relay.expect('s', 'exec');
  relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
  expect(internally).toEqual(['expect s', 'connect s']);
});

test('sessions pass over the internal channel after 5 s while the hub is away', async () => {
  const { server, user } = await startHub();
  await server.kill();
  const { relay, internally } = onBus({ servers: () => [server.url], user });
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
  const [here, there] = [onBus(hub), onBus(hub)];
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

describe('the default router, where it is configured', () => {
  /** A default router, and what makes a replica that is to use it. */
  async function startDefaultRouter() {
    const trust = await makeRouterTrust();
    const router = await startRouter(trust, { place: 'hub' });
    const hosts = () => [{ host: '127.0.0.1', port: router.ports.messaging }];
    const made = (requiresBroker = true) =>
      replica({
        settings: { by: 'default-router', requiresBroker, failsFast: true },
        defaultRouter: { hosts, tls: () => trust.agent },
      });
    return { router, made };
  }

  test('carries the sessions of both kinds, again after it was killed and started', async () => {
    const { router, made } = await startDefaultRouter();
    const [here, there] = [made(), made()];
    for (const kind of ['exec', 'log'] as const) {
      here.relay.expect(kind, kind);
      there.relay.connect(createFakeSocket(), '10.0.0.1:1', { ...ASKED, id: kind, kind });
      await expect.poll(() => here.joined).toContain(kind);
    }
    await router.kill();
    await router.start();
    here.relay.expect('later', 'exec');
    const again = () => {
      there.relay.connect(createFakeSocket(), '10.0.0.1:1', { ...ASKED, id: 'later' });
      return here.joined;
    };
    await expect.poll(again, { timeout: 30_000, interval: 1_000 }).toContain('later');
    expect([...here.internally, ...there.internally]).toEqual([]);
  }, 60_000);

  test('leaves sessions to the internal channel while it is not known', () => {
    const defaultRouter = { hosts: () => [], tls: () => ({ ca: '', cert: '', key: '' }) };
    const settings = { by: 'default-router', requiresBroker: true, failsFast: true } as const;
    const { relay, internally } = replica({ settings, defaultRouter });
    relay.expect('s', 'exec');
    relay.connect(createFakeSocket(), '10.0.0.1:1', ASKED);
    expect(internally).toEqual(['expect s', 'connect s']);
  });

  test.each([
    [true, []],
    [false, ['connect s']],
  ])(
    'is away: after 5 s, where sessions need it is %s, they pass over the internal channel as %j',
    async (required, by) => {
      const { router, made } = await startDefaultRouter();
      await router.kill();
      const { relay, internally } = made(required);
      const agent = createFakeSocket();
      relay.connect(agent, '10.0.0.1:1', ASKED);
      if (required) await expect.poll(() => agent.seen, { timeout: 15_000 }).toContain('close 1013');
      else await expect.poll(() => internally, { timeout: 15_000 }).toEqual(by);
      expect(internally).toEqual(by);
    },
    30_000,
  );
});
