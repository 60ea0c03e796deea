import { createServer } from 'node:http';
import { connect, type Socket } from 'node:net';
import { beforeEach, expect, test } from 'vitest';
import { createVirtualClock, type VirtualClock } from '../../../../../src/kube/_util.ts';
import type { MessageSocket } from '../../../../../src/lib/web-socket/socket.ts';
import { listenForTest } from '../../../../../testing/local-server.ts';
import { acceptControlSocket } from './control-socket.ts';

/** The WebSocket of a control channel, with a client that does what RFC 6455 does not allow. */

let client: Socket;
let clock: VirtualClock;
let socket: MessageSocket;
let isClosed: boolean;

beforeEach(async () => {
  isClosed = false;
  clock = createVirtualClock();
  const server = createServer();
  const accepted = new Promise<MessageSocket | undefined>((resolve) => {
    server.on('upgrade', (incoming, duplex, head) => {
      const closed = () => {
        isClosed = true;
      };
      resolve(acceptControlSocket({ incoming, socket: duplex, head }, clock)?.({ message() {}, closed }));
    });
  });
  client = connect(await listenForTest(server), '127.0.0.1').on('error', () => {});
  const key = Buffer.alloc(16).toString('base64');
  client.write(
    `GET / HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: ${key}\r\n\r\n`,
  );
  socket = (await accepted) as MessageSocket;
  return () => client.destroy();
});

const ping = () => clock.advance(30_000, { timers: 1 });
const PONG = [0x8a, 0x80, 0, 0, 0, 0];
/** with a payload, so that its answer is known */
const PING = [0x89, 0x81, 0, 0, 0, 0, 7];
const ANSWER = Buffer.from([0x8a, 0x01, 7]);

test('a client of a control channel that answers pings stays connected, and one that sends nothing is disconnected', async () => {
  let received = Buffer.alloc(0);
  client.on('data', (data) => {
    received = Buffer.concat([received, data]);
  });
  await ping();
  await expect.poll(() => received.includes(Buffer.from([0x89, 0x00]))).toBe(true);
  client.write(Uint8Array.from([...PONG, ...PING]));
  await expect.poll(() => received.includes(ANSWER)).toBe(true);
  await ping();
  expect(isClosed).toBe(false);
  await ping();
  await expect.poll(() => isClosed).toBe(true);
});

test('a client of a control channel that does not read what it is sent is disconnected', async () => {
  client.pause();
  const message = Buffer.alloc(64 * 1024);
  for (let n = 0; n < 200 && !isClosed; n++) {
    socket.send(message);
    await new Promise(setImmediate);
  }
  await expect.poll(() => isClosed).toBe(true);
});

test('a client of a control channel that does not answer a close frame is disconnected', async () => {
  socket.close(1000, '');
  await clock.advance(2_000, { timers: 1 });
  await expect.poll(() => isClosed).toBe(true);
});

const VIOLATIONS: Record<string, number[]> = {
  'a frame without a mask': [0x82, 0x01, 0x09],
  'a reserved bit': [0xc2, 0x81, 0, 0, 0, 0, 9],
  'an unknown opcode': [0x83, 0x80, 0, 0, 0, 0],
  'the end of a message that did not begin': [0x80, 0x80, 0, 0, 0, 0],
};
for (const [what, bytes] of Object.entries(VIOLATIONS))
  test(`a client of a control channel that sends ${what} is disconnected with 1002`, async () => {
    const received: Buffer[] = [];
    client.on('data', (data) => received.push(data));
    client.write(Uint8Array.from(bytes));
    await expect.poll(() => Buffer.concat(received).includes(Buffer.from([0x88, 0x02, 0x03, 0xea]))).toBe(true);
  });
