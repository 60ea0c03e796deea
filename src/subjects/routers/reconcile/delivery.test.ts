import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import {
  type InMemoryController,
  NAMESPACE,
  startInMemoryController,
} from '../../../../testing/in-memory-controller.ts';
import { echoServer, type RouterTrust, said, startRouter, tcpClient } from '../../../../testing/router.ts';
import { decodeData } from '../../../datastore/keyed-text.ts';
import { createRelayRouter } from '../../../datastore/relay-router.ts';
import { systemClock } from '../../../lib/clock.ts';
import { silentLog } from '../../../lib/log.ts';
import { createAmqpBroker } from '../../../sessions/amqp-broker.ts';
import { createSigner } from '../../../signer/signer.ts';
import { ROUTER_SETS } from '../../../wire/router.ts';

/** The controller in memory, whose leader sends services to a running router. */
let fleet: InMemoryController;
beforeAll(async () => {
  const first = await freePort();
  const env = { ROUTERS_ENABLED: 'true', BRIDGE_PORTS_RANGE: `${first}-${first + 9}` };
  fleet = await startInMemoryController(1, { env });
}, 60_000);
afterAll(() => fleet[Symbol.asyncDispose]());

const hub = () => fleet.stores.routerHubs.list()[0];
const ready = () => hub()?.status?.conditions?.find(({ type }) => type === 'Ready');
const texts = (name: string) => decodeData(fleet.stores.secrets.get(NAMESPACE, name)?.data);

/** Certificates of the authorities of the installation, for a router of somebody else. */
async function trustOfInstallation(): Promise<RouterTrust> {
  const { 'ca.crt': ca = '', 'tls.crt': cert = '', 'tls.key': key = '' } = texts('router-hub-agent');
  const authority = texts('skerry-ca-default-router-local-ca');
  const signer = createSigner();
  const now = Date.now();
  const names = [
    { type: 'ip', value: '127.0.0.1' },
    { type: 'dns', value: 'localhost' },
  ] as const;
  return {
    agent: { ca, cert, key },
    async write(dir) {
      const by = { cert: authority['tls.crt'] ?? '', key: authority['tls.key'] ?? '' };
      const life = { notBefore: now - 3_600_000, notAfter: now + 3_600_000 };
      const made = await signer.issue(
        { subject: 'router', algorithm: 'ECDSA', names, isAuthority: false, ...life },
        by,
      );
      for (const set of [ROUTER_SETS.site, ROUTER_SETS.local]) {
        mkdirSync(join(dir, set), { recursive: true });
        for (const [file, text] of Object.entries({ 'ca.crt': ca, 'tls.crt': made.cert, 'tls.key': made.key }))
          writeFileSync(join(dir, set, file), text, { mode: 0o600 });
      }
    },
  } as RouterTrust;
}

/** Names a default router on this machine, and resolves with its ports. */
async function nameRouter() {
  const ports = { messaging: await freePort(), edge: await freePort(), interRouter: await freePort() };
  const body = { host: '127.0.0.1', messagingPort: ports.messaging, edgeRouterPort: ports.edge };
  expect(await fleet.rest('PUT', '/router', { ...body, interRouterPort: ports.interRouter })).toBe(200);
  await expect.poll(() => texts('router-hub-agent')['tls.crt'], { timeout: 10_000 }).toBeDefined();
  return ports;
}

/** What a client of a port of this machine gets, or why it gets nothing. */
async function answerAt(port: number): Promise<string> {
  try {
    const socket = await tcpClient(port);
    return await said(socket, 'hello').finally(() => socket.destroy());
  } catch (error) {
    return String(error);
  }
}

describe('a default router that is named', () => {
  test('is not ready while it is away, and ready with its address once it has every service, also after it starts again', async () => {
    const ports = await nameRouter();
    await expect.poll(ready, { timeout: 10_000 }).toMatchObject({ status: 'False', reason: 'RouterHubBehind' });
    const router = await startRouter(await trustOfInstallation(), { id: 'yours', ports });
    await expect.poll(ready, { timeout: 10_000 }).toMatchObject({ status: 'True' });
    expect(hub()?.status).toMatchObject({ host: '127.0.0.1', isCurrent: true, listeners: 1 });
    await router.kill();
    await expect.poll(ready, { timeout: 10_000 }).toMatchObject({ reason: 'RouterHubBehind' });
    await router.start();
    await expect.poll(ready, { timeout: 15_000 }).toMatchObject({ status: 'True' });
  }, 60_000);

  test('gets a service while it runs, and gets back what somebody deleted from it', async () => {
    const router = await startRouter(await trustOfInstallation(), { id: 'yours', ports: await nameRouter() });
    await expect.poll(ready, { timeout: 20_000 }).toMatchObject({ status: 'True' });
    const echo = { name: 'echo', type: 'external', resource: '127.0.0.1', targetPort: await echoServer('backend') };
    expect(await fleet.rest('POST', '/services', { ...echo, servicePort: 80, clusterType: 'ClusterIP' })).toBe(201);
    const port = () => fleet.stores.services.get(NAMESPACE, 'echo')?.status?.bridgePort;
    await expect.poll(port, { timeout: 10_000 }).toBeDefined();
    await expect.poll(() => answerAt(port() ?? 0), { timeout: 20_000 }).toBe('backend: hello');
    await (await router.manage()).delete({ kind: 'tcpListener', name: 'echo-listener' }, AbortSignal.timeout(10_000));
    await expect.poll(() => answerAt(port() ?? 0), { timeout: 10_000 }).toMatch(/ECONNREFUSED/);
    // The next comparison comes within a minute, or with a change of any service.
    expect(await fleet.rest('PATCH', '/services/echo', { tags: ['north'] })).toBe(200);
    await expect.poll(() => answerAt(port() ?? 0), { timeout: 20_000 }).toBe('backend: hello');
  }, 60_000);

  test('has an address of a session for each replica, by the certificate that the installation has for itself', async () => {
    const relay = createRelayRouter(fleet.stores, { namespace: NAMESPACE });
    const { messaging: port } = await nameRouter().then(async (ports) => {
      await startRouter(await trustOfInstallation(), { id: 'yours', ports });
      return ports;
    });
    await expect.poll(() => relay.hosts(), { timeout: 10_000 }).toEqual([{ host: '127.0.0.1', port }]);
    using broker = createAmqpBroker({ ...relay, name: 'replica', clock: systemClock, log: silentLog });
    const seen: string[] = [];
    broker.open(
      { kind: 'exec', id: 's', end: 'user' },
      { up: () => void seen.push('up'), message() {}, down: () => void seen.push('down') },
    );
    await expect.poll(() => seen, { timeout: 10_000 }).toEqual(['up']);
  }, 60_000);
});

test('no replica knows a default router for sessions while its certificates are not made', () => {
  const relay = createRelayRouter(
    {
      routerHubs: fleet.stores.routerHubs,
      secrets: { get: () => undefined } as unknown as typeof fleet.stores.secrets,
    },
    { namespace: NAMESPACE },
  );
  expect(relay.hosts()).toEqual([]);
  expect(() => relay.tls()).toThrow('the certificate router-hub-agent is not made yet');
});
