import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { encodeFrame, FRAME_TYPES } from '../wire/frames.ts';
import { CLOSE_CODES, SESSION_TIMES } from '../wire/sessions.ts';
import { openSocket, type SocketEnd } from './socket.ts';

// The timers of this end and of both WebSockets; no time passes but what a test advances.
beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] });
  return () => void vi.useRealTimers();
});

/** Both ends of a real connection: the client's, and the plain WebSocket of a server. */
async function connect() {
  const http = createServer();
  const server = new WebSocketServer({ server: http });
  await once(http.listen(0, '127.0.0.1'), 'listening');
  const url = `ws://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const opened = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<SocketEnd>();
  const socket = openSocket({ url, headers: {} }, { frame: () => {}, closed: closed.resolve }, opened.resolve);
  const [[far]] = (await Promise.all([once(server, 'connection'), opened.promise])) as [[WebSocket], unknown];
  onTestFinished(() => {
    socket.drop();
    far.terminate();
    http.close();
  });
  return { socket, far, closed: closed.promise };
}

const frame = { type: FRAME_TYPES.STDIN, data: Buffer.alloc(64 * 1024) };

/** Sends more than the system takes while the other side reads nothing, and returns how many bytes. */
async function fill({ socket, far }: Awaited<ReturnType<typeof connect>>): Promise<number> {
  far.pause();
  let bytes = 0;
  for (let isFull = false; !isFull; ) {
    bytes += encodeFrame(frame).length;
    const waits = new Promise<boolean>((resolve) => setImmediate(() => setImmediate(() => resolve(true))));
    isFull = await Promise.race([socket.send(frame).then(() => false), waits]);
  }
  return bytes;
}

test('what was sent before a close reaches another side that reads only minutes later', async () => {
  const both = await connect();
  const { socket, far, closed } = both;
  const sent = await fill(both);
  socket.close();
  vi.advanceTimersByTime(SESSION_TIMES.linger / 2);
  let read = 0;
  far.on('message', (data: Buffer) => {
    read += data.length;
  });
  far.resume();
  expect((await closed).code).toBe(CLOSE_CODES.ended);
  expect(read).toBe(sent);
});

test('who leaves does not wait for another side that reads nothing', async () => {
  const both = await connect();
  await fill(both);
  both.socket.leave();
  vi.advanceTimersByTime(SESSION_TIMES.close);
  expect((await both.closed).code).toBe(1006);
});

test('a connection that the other side closes and keeps open is ended', async () => {
  const { far, closed } = await connect();
  far.close(CLOSE_CODES.goingAway);
  far.pause();
  let code: number | undefined;
  void closed.then((end) => {
    code = end.code;
  });
  let passed = 0;
  for (; code === undefined && passed < SESSION_TIMES.linger; passed++) {
    vi.advanceTimersByTime(1);
    await new Promise((resolve) => setImmediate(resolve));
  }
  expect(code).toBe(CLOSE_CODES.goingAway);
});
