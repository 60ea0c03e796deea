import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { expect, onTestFinished, test } from 'vitest';
import { silentLog } from '../../../../src/lib/log.ts';
import { systemClock } from '../../machine/clock.ts';
import { LocalAgent } from '../_local-agent.ts';
import { localApi } from '../routes.ts';
import { ConnectionShares } from './connection-shares.ts';
import { listenOnBridge } from './server.ts';

const LIMITS = { total: 6, perPeer: 3, kept: { perHolder: 2, total: 3 } };

test('a peer gets no more connections than its share, and another one for each that it closes', () => {
  const shares = new ConnectionShares<number>(LIMITS);
  expect([1, 2, 3, 4].map((each) => shares.admit(each, 'a').admitted)).toEqual([true, true, true, false]);
  expect(shares.admit(5, 'b')).toEqual({ admitted: true, displaced: undefined });
  shares.closed(1);
  expect(shares.admit(6, 'a').admitted).toBe(true);
});

test('a new connection takes the place of the one that was quiet for longest, and of none with a valid token', () => {
  const shares = new ConnectionShares<number>(LIMITS);
  for (const [each, peer] of [
    [1, 'a'],
    [2, 'a'],
    [3, 'b'],
    [4, 'b'],
    [5, 'c'],
    [6, 'c'],
  ] as const)
    shares.admit(each, peer);
  shares.used(1, 'web');
  shares.used(2);
  expect(shares.admit(7, 'd')).toEqual({ admitted: true, displaced: 3 });
  expect([8, 9, 10, 11].map((each) => shares.admit(each, `e${each}`))).toMatchObject(
    [4, 5, 6, 2].map((displaced) => ({ displaced })),
  );
});

test('one holder of tokens cannot keep all connections', () => {
  const shares = new ConnectionShares<number>({ ...LIMITS, perPeer: undefined });
  for (let each = 1; each <= 6; each++) {
    shares.admit(each, 'a');
    shares.used(each, each <= 4 ? 'web' : `other-${each}`);
  }
  // Kept are two of the first holder and one more; the others of all holders can be closed in favour of new ones.
  expect([7, 8, 9, 10].map((each) => shares.admit(each, 'a'))).toMatchObject(
    [3, 4, 6, 7].map((displaced) => ({ displaced })),
  );
});

/** Connections that say nothing, from one address of the loopback network. */
async function silent(count: number, to: { host: string; port: number; localAddress: string }): Promise<Socket[]> {
  const sockets = Array.from({ length: count }, () => connect(to));
  for (const socket of sockets) socket.on('error', () => {});
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
  });
  await Promise.all(sockets.map((socket) => socket.readyState === 'open' || once(socket, 'connect')));
  return sockets;
}

test('probes and metrics are answered while another user of the machine holds all connections that there are', async () => {
  await using local = await LocalAgent.start();
  const loopback = { host: '127.0.0.1', port: local.port, localAddress: '127.0.0.1' };
  await silent(300, loopback);
  for (const path of ['/health/live', '/metrics']) {
    const answer = await fetch(`http://127.0.0.1:${local.port}${path}`);
    expect(answer.status).toBe(200);
    // Without a token a connection does not wait long for its next request.
    expect(answer.headers.get('keep-alive')).toBe('timeout=10');
    const text = await answer.text();
    if (path === '/metrics')
      expect(text).toMatch(/edge_agent_local_api_connections_closed_total\{listener="loopback"\} \d/);
  }
});

test('a container that opens as many connections as it can leaves the local API to the others', async () => {
  await using local = await LocalAgent.start();
  const { agent, authority } = local;
  const api = localApi({ agent } as never);
  const { server } = await listenOnBridge('127.0.0.1', 0, authority, { clock: systemClock(), log: silentLog, api });
  onTestFinished(() => void server.close());
  const { port } = server.address() as { port: number };
  const hostile = await silent(300, { host: '127.0.0.1', port, localAddress: '127.0.0.2' });
  await expect
    .poll(() => hostile.filter(({ destroyed, readableEnded }) => !destroyed && !readableEnded).length)
    .toBe(32);

  /** The status of a request from another container. */
  const ask = async () => {
    const own = { host: '127.0.0.1', port, localAddress: '127.0.0.3' };
    const socket = connectTls({ ...own, ca: authority.certificate, checkServerIdentity: () => undefined });
    socket.on('error', () => {});
    await once(socket, 'secureConnect');
    socket.write('GET /v1/microservices/config HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n');
    let text = '';
    for await (const piece of socket) text += piece;
    return text.slice(9, 12);
  };
  // More often than its share has places: each connection that ends gives its place back.
  for (let n = 0; n < 40; n++) expect(await ask()).toBe('401');
});
