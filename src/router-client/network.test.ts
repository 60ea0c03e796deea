import { once } from 'node:events';
import { createServer } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, test } from 'vitest';
import { freePort } from '../../hack/ports.ts';
import { atEnd } from '../../testing/at-end.ts';
import {
  echoServer,
  makeRouterTrust,
  type RouterTrust,
  said,
  startRouter,
  type TestRouter,
  tcpClient,
} from '../../testing/router.ts';
import type { RouterConfigInput } from '../subjects/routers/rules/config.ts';
import { dialPort } from './dial.ts';

/** What the network of routers does with the configurations of the product; the same with the stand-in and with the real program. */

const { signal } = new AbortController();
const waits = { timeout: 30_000 };

interface Network {
  trust: RouterTrust;
  hub: TestRouter;
  /** ports of the listeners of the service `web`, by router */
  ports: { hub: number; edge: number };
  edge: TestRouter;
  far: TestRouter;
  backend: number;
}

/** A hub, an edge router with the backend of the service `web`, and an edge router that listens for it. */
async function startNetwork(): Promise<Network> {
  const trust = await makeRouterTrust();
  const [atHub, atEdge, backend] = [await freePort(), await freePort(), await echoServer('web')];
  const listens = (port: number) => [{ name: 'web-listener', port: String(port), address: 'web' }];
  const hub = await startRouter(trust, {
    ...{ id: 'default-router', place: 'hub', bridges: { listeners: listens(atHub), connectors: [] } },
  });
  const up = [{ name: 'default-router', host: 'localhost', port: hub.ports.edge }];
  const edge = (bridges: RouterConfigInput['bridges']) => startRouter(trust, { mode: 'edge', upstreams: up, bridges });
  const connector = { name: 'web-connector', host: '127.0.0.1', port: String(backend), address: 'web', processId: 'x' };
  return {
    ...{ trust, hub, backend, ports: { hub: atHub, edge: atEdge } },
    far: await edge({ listeners: [], connectors: [connector] }),
    edge: await edge({ listeners: listens(atEdge), connectors: [] }),
  };
}

const answered = (port: number, line: string) => async () => {
  const client = await tcpClient(port).catch(() => undefined);
  const answer = client && (await said(client, line).catch(() => undefined));
  client?.destroy();
  return answer;
};

describe('a service behind an edge router', () => {
  test('is reached at the hub and at another edge router, over mutual TLS', async () => {
    const { ports } = await startNetwork();
    await expect.poll(answered(ports.hub, 'a'), waits).toBe('web: a');
    await expect.poll(answered(ports.edge, 'b'), waits).toBe('web: b');
  });

  test('refuses clients at every router while no router has its connector', async () => {
    const { ports, far, backend } = await startNetwork();
    await expect.poll(answered(ports.edge, 'a'), waits).toBe('web: a');
    const management = await far.manage();
    await management.delete({ kind: 'tcpConnector', name: 'web-connector' }, signal);
    for (const port of [ports.hub, ports.edge])
      await expect.poll(() => tcpClient(port).then(() => '', String), waits).toContain('ECONNREFUSED');
    const attributes = { host: '127.0.0.1', port: String(backend), address: 'web' };
    await management.create({ kind: 'tcpConnector', name: 'web-connector', attributes }, signal);
    await expect.poll(answered(ports.hub, 'c'), waits).toBe('web: c');
  });

  test('is found open by a dial at the hub, closed while its server is away, and refused without a connector', async () => {
    const { ports, far } = await startNetwork();
    const dialed = () => dialPort({ host: '127.0.0.1', port: ports.hub, connectMs: 5_000, staysMs: 1_000, signal });
    await expect.poll(dialed, waits).toEqual({ is: 'open' });
    const management = await far.manage();
    const replace = async (attributes?: Record<string, string>) => {
      await management.delete({ kind: 'tcpConnector', name: 'web-connector' }, signal);
      if (attributes) await management.create({ kind: 'tcpConnector', name: 'web-connector', attributes }, signal);
    };
    await replace({ host: '127.0.0.1', port: String(await freePort()), address: 'web' });
    await expect.poll(dialed, waits).toEqual({ is: 'closed' });
    await replace();
    await expect.poll(dialed, waits).toEqual({ is: 'refused' });
  });

  test('carries 8 MiB in both directions, and the end of either side', async () => {
    const { ports, far } = await startNetwork();
    const at = await freePort();
    const server = createServer({ allowHalfOpen: true }, (socket) => void socket.on('error', () => {}).pipe(socket));
    await new Promise<void>((resolve) => void server.listen(at, '127.0.0.1', resolve));
    atEnd(() => server.close());
    const management = await far.manage();
    await management.delete({ kind: 'tcpConnector', name: 'web-connector' }, signal);
    const attributes = { host: '127.0.0.1', port: String(at), address: 'web' };
    await management.create({ kind: 'tcpConnector', name: 'web-connector', attributes }, signal);
    const bytes = Buffer.alloc(8 * 2 ** 20, 7);
    // A client that comes before the edge router knows of the other connector is closed at once.
    const carried = async () => {
      const client = await tcpClient(ports.edge);
      let [received, hasEnded] = [0, false];
      client.on('error', () => {});
      client.on('data', (chunk) => {
        received += chunk.length;
      });
      client.on('end', () => {
        hasEnded = true;
      });
      client.end(bytes);
      await once(client, 'close');
      return { received, hasEnded };
    };
    await expect.poll(carried, { timeout: 50_000 }).toEqual({ received: bytes.length, hasEnded: true });
  }, 60_000);

  test('continues with the next dial after its router was killed and started again', async () => {
    const { ports, far } = await startNetwork();
    await expect.poll(answered(ports.edge, 'a'), waits).toBe('web: a');
    await far.kill();
    await expect.poll(() => tcpClient(ports.edge).then(() => '', String), waits).toContain('ECONNREFUSED');
    await far.start();
    await expect.poll(answered(ports.edge, 'b'), waits).toBe('web: b');
  });

  test('continues after the hub was killed and started again', async () => {
    const { ports, hub } = await startNetwork();
    await expect.poll(answered(ports.edge, 'a'), waits).toBe('web: a');
    await hub.kill();
    await hub.start();
    await expect.poll(answered(ports.edge, 'b'), waits).toBe('web: b');
    await expect.poll(answered(ports.hub, 'c'), waits).toBe('web: c');
  });
});

describe('a router of another installation', () => {
  test('gets no connection to the hub, and says why', async () => {
    const [{ hub }, other] = [await startNetwork(), await makeRouterTrust()];
    const up = [{ name: 'default-router', host: 'localhost', port: hub.ports.edge }];
    const stranger = await startRouter(other, { mode: 'edge', upstreams: up });
    const management = await stranger.manage();
    await expect
      .poll(async () => (await management.query('connector', signal))[0]?.attributes.connectionMsg, waits)
      .toMatch(/certificate/i);
    expect((await management.query('connector', signal))[0]?.attributes.connectionStatus).not.toBe('SUCCESS');
  });

  test('is not reached under a name that its certificate does not have', async () => {
    const { hub, trust } = await startNetwork();
    const up = [{ name: 'default-router', host: '127.0.0.2', port: hub.ports.edge }];
    const edge = await startRouter(trust, { mode: 'edge', upstreams: up });
    const management = await edge.manage();
    await expect
      .poll(async () => (await management.query('connector', signal))[0]?.attributes.connectionMsg, waits)
      .toMatch(/certificate|altnames/i);
  });
});

test.each(['messaging', 'edge', 'interRouter'] as const)(
  'the %s port of a router takes no client without a certificate',
  async (which) => {
    const router = await startRouter(await makeRouterTrust());
    const options = { host: '127.0.0.1', port: router.ports[which], rejectUnauthorized: false };
    const refused = new Promise<string>((resolve) => {
      const socket = connectTls(options, () => socket.write('AMQP'));
      socket.on('error', (error) => resolve(String(error))).on('close', () => resolve('closed'));
    });
    await expect(refused).resolves.toMatch(/certificate required|closed|alert|ECONNRESET/);
  },
);
