import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { expect, onTestFinished, test, vi } from 'vitest';
import { WebSocket } from 'ws';
import { createVirtualClock } from '../../kube/_util.ts';
import { createAccept } from './handshake.ts';
import { WebSocketEnd } from './socket.ts';

const TIMES = { ping: 30_000, close: 5_000, linger: 600_000 };
const accept = createAccept({ maxBytes: 2 ** 20, closeMs: TIMES.linger + TIMES.close });

/** Both ends of a real connection; the clock of the server's end is in the hand of the test. */
async function connect(options: { autoPong?: boolean; isQuietWhilePaused?: boolean } = {}) {
  const clock = createVirtualClock();
  const http = createServer();
  const accepted = new Promise<WebSocket>((resolve) => {
    http.on('upgrade', (incoming, socket, head) => resolve(accept({ incoming, socket, head }) as WebSocket));
  });
  await once(http.listen(0, '127.0.0.1'), 'listening');
  const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`, options);
  const [ws] = await Promise.all([accepted, once(client, 'open')]);
  const seen: string[] = [];
  const socket = new WebSocketEnd(ws, {
    ...{ clock, fullBytes: 64 * 1024, lookMs: TIMES.ping, silentLooks: 2, sendsPings: true },
    whilePaused: options.isQuietWhilePaused ? 'nothing' : 'ping',
    ...{ answerMs: TIMES.close, lingerMs: TIMES.linger },
  });
  const note = (what: string) => () => {
    seen.push(what);
    ws.emit('noted');
  };
  socket.listen({ message: note('message'), full: note('full'), drained: note('drained'), closed: note('closed') });
  const until = async (what: string) => {
    while (!seen.includes(what)) await once(ws, 'noted', { signal: AbortSignal.timeout(20_000) });
  };
  onTestFinished(() => {
    client.terminate();
    ws.terminate();
    http.close();
  });
  return { clock, client, ws, socket, seen, until };
}

test('a client that answers no ping is disconnected at the next one', async () => {
  const { clock, client, ws, until } = await connect({ autoPong: false });
  await Promise.all([once(client, 'ping'), clock.advance(TIMES.ping, { timers: 1 })]);
  expect(ws.readyState).toBe(ws.OPEN);
  await clock.advance(TIMES.ping, { timers: 1 });
  await until('closed');
});

test('a client that answers pings, or sends anything, stays', async () => {
  const { clock, ws, client, until } = await connect();
  for (let i = 0; i < 4; i++) await Promise.all([once(ws, 'pong'), clock.advance(TIMES.ping, { timers: 1 })]);
  ws.removeAllListeners('pong');
  client.send('x');
  await until('message');
  await clock.advance(TIMES.ping, { timers: 1 });
  expect(ws.readyState).toBe(ws.OPEN);
});

test('a client whose reading was stopped is not expected to answer', async () => {
  const { clock, ws, socket } = await connect({ autoPong: false });
  socket.pause();
  await clock.advance(3 * TIMES.ping, { timers: 1 });
  expect(ws.readyState).toBe(ws.OPEN);
});

test('what a client sent before it ended the connection arrives after a long pause in which it gets no pings', async () => {
  const { clock, client, ws, socket, seen, until } = await connect({ isQuietWhilePaused: true });
  let bytes = 0;
  ws.on('message', (data: Buffer) => {
    bytes += data.length;
  });
  socket.pause();
  for (let i = 0; i < 64; i++) client.send(Buffer.alloc(16 * 1024));
  await new Promise((resolve) => client.send('last', resolve));
  (client as unknown as { _socket: Socket })._socket.destroySoon();
  await once(client, 'close');
  for (let i = 0; i < 3; i++) await clock.advance(TIMES.ping, { timers: 1 });
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(seen).toEqual([]);
  socket.resume();
  await until('closed');
  expect(bytes).toBe(64 * 16 * 1024 + 'last'.length);
});

test('a client that does not answer a close frame is disconnected after its time', async () => {
  const { clock, client, socket, seen, until } = await connect();
  client.pause();
  socket.close(1000, 'over');
  await clock.advance(TIMES.close - 1, { timers: 0 });
  expect(seen).toEqual([]);
  await clock.advance(1, { timers: 1 });
  await until('closed');
  expect(seen).toEqual(['closed']);
});

/** Sends more than the system takes while the client reads nothing, then a close frame. */
async function closeUnread({ client, socket, seen }: Awaited<ReturnType<typeof connect>>) {
  client.pause();
  let bytes = 0;
  for (; !seen.includes('full') && bytes < 256 * 2 ** 20; bytes += 16 * 1024) socket.send(Buffer.alloc(16 * 1024));
  // ws has a timer of its own, which is none of the clock's.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(() => void vi.useRealTimers());
  socket.close(1000, 'over');
  return bytes;
}

test('a client that reads slowly gets what was sent before the close frame', async () => {
  const both = await connect();
  const { client, clock } = both;
  await clock.advance(TIMES.ping - TIMES.close, { timers: 0 });
  const bytes = await closeUnread(both);
  vi.advanceTimersByTime(TIMES.linger - 1);
  await clock.advance(TIMES.linger - 1, { timers: 1 });
  let read = 0;
  client.on('message', (data: Buffer) => {
    read += data.length;
  });
  const closed = once(client, 'close');
  client.resume();
  expect((await closed)[0]).toBe(1000);
  expect(read).toBe(bytes);
});

test('a client that takes nothing after a close frame is disconnected', async () => {
  const both = await connect();
  await closeUnread(both);
  await both.clock.advance(TIMES.linger + TIMES.close, { timers: 1 });
  await both.until('closed');
});

test('a client that has stopped reading, and says that it lives, gets what the system holds for it', async () => {
  const { clock, client, ws, socket, seen } = await connect();
  client.pause();
  const pong = async () => {
    const came = once(ws, 'pong', { signal: AbortSignal.timeout(20_000) });
    client.pong();
    await came;
  };
  await pong();
  socket.send(Buffer.alloc(1_024 * 1_024));
  await expect.poll(() => ws.bufferedAmount).toBe(0);
  socket.close(1000, 'over');
  await clock.advance(2 * TIMES.close, { timers: 1 });
  await pong();
  await clock.advance(TIMES.close, { timers: 1 });
  expect(seen).toEqual([]);
  let read = 0;
  client.on('message', (data: Buffer) => {
    read += data.length;
  });
  const closed = once(client, 'close');
  client.resume();
  expect((await closed)[0]).toBe(1000);
  expect(read).toBe(1_024 * 1_024);
});

test('a client that never had a session is disconnected after 5 s, however many pongs it sends', async () => {
  const { clock, client, ws, socket, until } = await connect();
  client.pause();
  socket.send(Buffer.from('why'));
  socket.close(1008, 'refused', 0);
  const pong = once(ws, 'pong', { signal: AbortSignal.timeout(20_000) });
  client.pong();
  await pong;
  await clock.advance(TIMES.close, { timers: 1 });
  await until('closed');
});

test('a long reason is cut to what a close frame has room for, between two characters', async () => {
  const { client, socket } = await connect();
  const closed = once(client, 'close');
  socket.close(1008, 'ä'.repeat(200));
  expect(String((await closed)[1])).toBe(`${'ä'.repeat(60)}...`);
});

test('a socket is full when more waits than its bound, and drained once half of that is sent, once each', async () => {
  const { client, socket, seen, until } = await connect();
  client.pause();
  const piece = Buffer.alloc(16 * 1024);
  let bytes = 0;
  // The system takes some megabytes before anything waits here.
  for (; !seen.includes('full') && bytes < 256 * 2 ** 20; bytes += piece.length) socket.send(piece);
  socket.send(piece);
  expect(seen).toEqual(['full']);
  client.resume();
  await until('drained');
  expect(seen).toEqual(['full', 'drained']);
});

test('a listener that takes the place of another one hears that the socket is full', async () => {
  const { client, socket, seen } = await connect();
  client.pause();
  for (let bytes = 0; !seen.includes('full') && bytes < 256 * 2 ** 20; bytes += 16 * 1024)
    socket.send(Buffer.alloc(16 * 1024));
  const later: string[] = [];
  const note = (what: string) => () => void later.push(what);
  socket.listen({ message() {}, full: note('full'), drained: note('drained'), closed() {} });
  expect(later).toEqual(['full']);
  client.resume();
  await expect.poll(() => later).toEqual(['full', 'drained']);
});
