import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';
import { SESSION_TIMES } from '../wire/sessions.ts';
import { acceptSocket, openSocket, type SocketEnd } from './socket.ts';

/** How either end of a session notices that the other one is gone, where there is no controller in between. */

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  return () => void vi.useRealTimers();
});
const look = () => void vi.advanceTimersByTime(SESSION_TIMES.ping / 2);

async function connect(options: { autoPong: boolean }) {
  const http = createServer();
  const closed = Promise.withResolvers<SocketEnd>();
  const asked = Promise.withResolvers<Duplex>();
  http.on('upgrade', (incoming, socket, head) => {
    acceptSocket({ incoming, socket, head })?.({ frame: () => {}, closed: closed.resolve });
    asked.resolve(socket);
  });
  await once(http.listen(0, '127.0.0.1'), 'listening');
  const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`, options);
  onTestFinished(() => {
    client.terminate();
    http.close();
  });
  await once(client, 'open');
  return { client, closed: closed.promise, socket: await asked.promise };
}

test('a client that answers no ping for 90 s is disconnected', async () => {
  const { client, closed } = await connect({ autoPong: false });
  for (let i = 0; i < 5; i++) {
    const ping = once(client, 'ping');
    look();
    await ping;
  }
  look();
  expect((await closed).code).toBe(1006);
});

test('a client that answers pings stays', async () => {
  const { client, socket } = await connect({ autoPong: true });
  for (let i = 0; i < 12; i++) {
    const both = Promise.all([once(client, 'ping'), once(socket, 'data')]);
    look();
    await both;
  }
  expect(client.readyState).toBe(client.OPEN);
});

test('the end that asked gives another one up that is gone without a word, after 90 s without a ping', async () => {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', autoPong: false });
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  const closed = vi.fn();
  const opened = Promise.withResolvers<void>();
  const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const asked = once(server, 'connection') as Promise<[WebSocket]>;
  const socket = openSocket({ url, headers: {} }, { frame: () => {}, closed }, opened.resolve);
  onTestFinished(() => socket.drop());
  const [[other]] = await Promise.all([asked, opened.promise]);
  for (let i = 0; i < 5; i++) look();
  // A ping in time counts.
  await new Promise<void>((resolve) => {
    other.once('pong', () => resolve());
    other.ping();
  });
  for (let i = 0; i < 5; i++) look();
  expect(closed).not.toHaveBeenCalled();
  look();
  await expect.poll(() => closed.mock.calls.length).toBe(1);
});
