import { createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import {
  echoServer,
  makeRouterTrust,
  type RouterTrust,
  said,
  startRouter,
  type TestRouter,
  tcpClient,
} from '../../testing/router.ts';
import { systemClock } from '../lib/clock.ts';
import { silentLog } from '../lib/log.ts';
import { managedEntities, type Owned, type RouterEntity } from './changes.ts';
import { connectRouter } from './connection.ts';
import { RouterDelivery, type RouterState } from './delivery.ts';

const { signal } = new AbortController();
const waits = { timeout: 20_000 };

/** Delivers entities of a list, which a test changes, to a running router. */
function deliverTo(
  router: TestRouter,
  trust: RouterTrust,
  { owned = 'all' as Owned, mode }: { owned?: Owned; mode?: string } = {},
) {
  const wanted = new Map<string, RouterEntity>();
  const certificates = new Map<string, string>();
  const states: RouterState[] = [];
  const delivery = new RouterDelivery({
    dial: (abort) =>
      connectRouter({
        ...{ host: '127.0.0.1', port: router.ports.messaging, servername: 'localhost' },
        ...{ tls: trust.agent, name: 'test', signal: abort },
      }),
    wanted: () => [...wanted.values()],
    certificates: () => certificates,
    owned,
    mode: () => mode,
    report: (state) => void states.push(state),
    clock: systemClock,
    random: () => 0.5,
    log: silentLog,
  });
  onTestFinished(() => delivery[Symbol.asyncDispose]());
  const set = (...entities: readonly RouterEntity[]) => {
    for (const entity of entities) wanted.set(entity.name, entity);
    delivery.changed();
  };
  const remove = (...names: readonly string[]) => {
    for (const name of names) wanted.delete(name);
    delivery.changed();
  };
  const isCurrent = () => expect.poll(() => delivery.state.isCurrent, waits).toBe(true);
  return { delivery, wanted, certificates, states, set, remove, isCurrent };
}

const listener = (name: string, port: number): RouterEntity => ({
  kind: 'tcpListener',
  name: `${name}-listener`,
  attributes: { port: String(port), address: name },
});
const connector = (name: string, port: number): RouterEntity => ({
  kind: 'tcpConnector',
  name: `${name}-connector`,
  attributes: { host: '127.0.0.1', port: String(port), address: name, processId: name },
});

/** A router with the entities of its own configuration, which the delivery keeps. */
async function started(options: { owned?: Owned; mode?: string } = {}) {
  const trust = await makeRouterTrust();
  const router = await startRouter(trust);
  const management = await router.manage();
  const own = await Promise.all((['sslProfile', 'listener'] as const).map((kind) => management.query(kind, signal)));
  const to = deliverTo(router, trust, options);
  // What it has from its start is what the product wants of it.
  const settable = own
    .flat()
    .map(({ kind, name, attributes }) => [kind, { ...withoutStatus(attributes), name }] as const);
  to.set(...managedEntities(settable));
  return { trust, router, management, to };
}

const OWN = new Set(['identity', 'type', 'name']);
const withoutStatus = (attributes: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(
    Object.entries(attributes).filter(([name, value]) => !OWN.has(name) && value !== undefined),
  ) as Record<string, string | number | boolean>;

describe('the delivery to a router', () => {
  test('makes, changes and removes what differs, and says so', async () => {
    const { to, management } = await started();
    const [server, other, port] = [await echoServer('first'), await echoServer('second'), await freePort()];
    to.set(listener('web', port), connector('web', server));
    await to.isCurrent();
    await expect.poll(() => to.delivery.state.notUp, waits).toEqual([]);
    await expect.poll(async () => said(await tcpClient(port), 'hello').catch(() => ''), waits).toBe('first: hello');
    to.set(connector('web', other));
    await expect.poll(async () => said(await tcpClient(port), 'hello').catch(() => ''), waits).toBe('second: hello');
    to.remove('web-listener', 'web-connector');
    await expect.poll(() => management.query('tcpListener', signal), waits).toEqual([]);
    expect(await management.query('tcpConnector', signal)).toEqual([]);
    await expect(tcpClient(port)).rejects.toThrow('ECONNREFUSED');
  });

  test('changes nothing in a router of another mode, which gives way to its successor', async () => {
    const [{ to, management }, port] = [await started({ mode: 'edge' }), await freePort()];
    to.set(listener('web', port), connector('web', port));
    await expect.poll(() => to.delivery.state.router, waits).toBeDefined();
    expect(to.delivery.state.isCurrent).toBe(false);
    expect(await management.query('tcpListener', signal)).toEqual([]);
  });

  test('changes a router of the mode that it is meant for', async () => {
    const [{ to, management }, port] = [await started({ mode: 'interior' }), await freePort()];
    to.set(listener('web', port), connector('web', port));
    await to.isCurrent();
    expect(await management.query('tcpListener', signal)).toHaveLength(1);
  });

  test('leaves open connections of a service alone while other services come and go', async () => {
    const { to, router, trust } = await started();
    const [server, port] = [await echoServer('web'), await freePort()];
    to.set(listener('web', port), connector('web', server));
    await expect.poll(() => to.delivery.state.isCurrent && to.delivery.state.notUp.length, waits).toBe(0);
    const client = await tcpClient(port);
    expect(await said(client, '1')).toBe('web: 1');
    const ports = await Promise.all(Array.from({ length: 20 }, () => freePort()));
    to.set(...ports.map((at, i) => listener(`s${i}`, at)));
    await expect.poll(() => to.delivery.state.notUp.length, waits).toBe(20);
    to.remove(...ports.map((_, i) => `s${i}-listener`));
    await trust.write(router.certificates);
    to.certificates.set('router-local-server', 'next').set('router-site-server', 'next');
    to.delivery.changed();
    await expect.poll(() => to.delivery.state.notUp.length, waits).toBe(0);
    expect(await said(client, '2')).toBe('web: 2');
  });

  test('swaps the ports of two services', async () => {
    const { to } = await started();
    const [a, b] = [await echoServer('a'), await echoServer('b')];
    const [first, second] = [await freePort(), await freePort()];
    to.set(listener('a', first), connector('a', a), listener('b', second), connector('b', b));
    await expect.poll(async () => said(await tcpClient(second), '?').catch(() => ''), waits).toBe('b: ?');
    to.set(listener('a', second), listener('b', first));
    await expect.poll(async () => said(await tcpClient(second), '?').catch(() => ''), waits).toBe('a: ?');
    await expect.poll(async () => said(await tcpClient(first), '?').catch(() => ''), waits).toBe('b: ?');
  });

  test('puts right what was edited by hand, once it looks again', async () => {
    const { to, management } = await started();
    to.set(listener('web', await freePort()));
    await to.isCurrent();
    const before = await management.query('tcpListener', signal);
    await management.delete({ kind: 'tcpListener', name: 'web-listener' }, signal);
    await management.create(listener('foreign', await freePort()), signal);
    to.delivery.changed();
    await expect
      .poll(async () => (await management.query('tcpListener', signal)).map(({ name }) => name), waits)
      .toEqual(['web-listener']);
    expect((await management.query('tcpListener', signal))[0]?.attributes.port).toBe(before[0]?.attributes.port);
  });

  test('leaves entities of a router that are no bridges of services as they are, where it owns bridges alone', async () => {
    const { to, management } = await started({ owned: 'bridges' });
    await management.create({ ...listener('foreign', await freePort()), name: 'foreign' }, signal);
    await management.create(listener('old', await freePort()), signal);
    to.wanted.clear();
    to.set(listener('web', await freePort()));
    await expect
      .poll(async () => (await management.query('tcpListener', signal)).map(({ name }) => name).sort(), waits)
      .toEqual(['foreign', 'web-listener']);
    expect((await management.query('listener', signal)).length).toBeGreaterThan(1);
  });

  test('names the listener whose port the machine has taken, and makes it again once the port is free', async () => {
    const { to } = await started();
    const port = await freePort();
    const holder = createServer();
    await new Promise<void>((resolve) => void holder.listen(port, resolve));
    const server = await echoServer('web');
    to.set(listener('web', port), connector('web', server));
    await expect
      .poll(() => to.delivery.state.notUp, waits)
      .toEqual([{ name: 'web-listener', message: expect.stringContaining('Address already in use') }]);
    expect(to.delivery.state.isCurrent).toBe(true);
    await new Promise((resolve) => holder.close(resolve));
    await expect.poll(() => to.delivery.state.notUp, { timeout: 30_000 }).toEqual([]);
    await expect(said(await tcpClient(port), '!')).resolves.toBe('web: !');
  }, 60_000);

  test('says what a router refuses, with its reason, and delivers the rest', async () => {
    const { to } = await started();
    to.set({ ...listener('bad', await freePort()), attributes: { port: '1', address: 'bad', sslProfile: 'none' } });
    to.set(listener('good', await freePort()));
    await expect
      .poll(() => to.delivery.state.refused, waits)
      .toEqual([{ name: 'bad-listener', message: expect.stringContaining("sslProfile 'none' not found") }]);
    expect(to.delivery.state).toMatchObject({ isCurrent: false, notUp: [{ name: 'good-listener' }] });
    to.remove('bad-listener');
    await to.isCurrent();
  });

  test('brings a router that was killed everything again', async () => {
    const { to, router } = await started();
    const [server, port] = [await echoServer('web'), await freePort()];
    to.set(listener('web', port), connector('web', server));
    await expect.poll(async () => said(await tcpClient(port), '1').catch(() => ''), waits).toBe('web: 1');
    await router.kill();
    await expect.poll(() => to.delivery.state.router, waits).toBeUndefined();
    expect(to.delivery.state.isCurrent).toBe(false);
    await router.start();
    await expect.poll(async () => said(await tcpClient(port), '2').catch(() => ''), waits).toBe('web: 2');
    await to.isCurrent();
  });

  test('makes a router serve a renewed certificate, which it does not read by itself', async () => {
    const { to, router, trust } = await started();
    to.certificates.set('router-local-server', 'first');
    to.delivery.changed();
    await to.isCurrent();
    const before = await servedAt(router, trust);
    await trust.write(router.certificates, ['router-local-server']);
    expect(await servedAt(router, trust)).toBe(before);
    to.certificates.set('router-local-server', 'second');
    to.delivery.changed();
    await expect.poll(() => servedAt(router, trust), waits).not.toBe(before);
  });

  test('ends at once, in whatever it is', async () => {
    const { to } = await started();
    to.set(listener('web', await freePort()));
    await to.delivery[Symbol.asyncDispose]();
  });
});

/** The fingerprint of the certificate that a router shows its clients. */
function servedAt({ ports }: TestRouter, { agent }: RouterTrust): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connectTls({ host: '127.0.0.1', port: ports.messaging, servername: 'localhost', ...agent }, () => {
      resolve(socket.getPeerCertificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}
