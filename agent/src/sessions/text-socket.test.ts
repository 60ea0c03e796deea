import { once } from 'node:events';
import { createServer } from 'node:http';
import { beforeEach, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { createVirtualClock, type VirtualClock } from '../../../src/kube/_util.ts';
import { listenForTest } from '../../../testing/local-server.ts';
import { acceptTextSocket, type TextSocket } from './text-socket.ts';

/** The sockets of exec sessions and log streams, with clients that do not read or do not answer. */

let client: WebSocket;
let clock: VirtualClock;
let socket: TextSocket;
let received: string[];
let closed: number[];

beforeEach(async () => {
  clock = createVirtualClock();
  received = [];
  const own: number[] = [];
  closed = own;
  const server = createServer();
  const accepted = new Promise<TextSocket | undefined>((resolve) => {
    server.on('upgrade', (incoming, duplex, head) => {
      const listener = { message() {}, closed: (code = 1006) => void own.push(code) };
      resolve(acceptTextSocket({ incoming, socket: duplex, head }, clock, listener));
    });
  });
  client = new WebSocket(`ws://127.0.0.1:${await listenForTest(server)}`);
  client.on('message', (data) => received.push(String(data)));
  socket = (await accepted) as TextSocket;
  await once(client, 'open');
  return () => client.terminate();
});

const look = () => clock.advance(30_000, { timers: 1 });
const LARGE = { line: 'x'.repeat(64 * 1024) };

/** Sends until the client takes no more; returns what waits for it. */
async function fill(): Promise<{ waiting: Promise<void> }> {
  for (let sent = 0; sent < 1_000; sent++) {
    const room = socket.send(LARGE);
    let hasRoom = false;
    void room.then(() => {
      hasRoom = true;
    });
    for (let turn = 0; turn < 20 && !hasRoom; turn++) await new Promise(setImmediate);
    if (!hasRoom) return { waiting: room };
  }
  return expect.fail('the client takes everything');
}

test('a client that answers pings stays connected', async () => {
  for (let round = 0; round < 4; round++) {
    const ping = once(client, 'ping');
    await look();
    await ping;
    const text = `{"round":${round}}`;
    await socket.send({ round });
    await expect.poll(() => received).toContain(text);
  }
  expect(closed).toEqual([]);
});

test('a client that reads nothing takes a bounded number of bytes, and is disconnected after 90 s', async () => {
  client.pause();
  const { waiting } = await fill();
  for (let round = 0; round < 3; round++) await look();
  await expect.poll(() => closed).toEqual([1006]);
  // Who waits for room does not wait for ever.
  await waiting;
});

test('a client that reads slowly gets everything that was sent before the end', async () => {
  client.pause();
  for (let count = 0; count < 3; count++) void socket.send(LARGE);
  socket.close(1000, 'done');
  await new Promise(setImmediate);
  client.resume();
  const [code] = await once(client, 'close');
  expect([code, received.length]).toEqual([1000, 3]);
});

test('a client that sends a message of more than 1 MiB is disconnected with 1009', async () => {
  client.send(Buffer.alloc(1024 * 1024 + 1));
  const [code] = await once(client, 'close');
  expect(code).toBe(1009);
});
