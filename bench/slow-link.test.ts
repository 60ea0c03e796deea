import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { expect, test } from 'vitest';
import { carry, type SlowLink } from './slow-link.ts';

/** An echo server behind a link. */
async function behind(link: SlowLink) {
  await using started = new AsyncDisposableStack();
  const listen = async (serve: (socket: Socket) => void) => {
    const server = createServer(serve).listen(0, '127.0.0.1');
    started.defer(() => void server.close());
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  const echo = await listen((socket) => socket.pipe(socket));
  const port = await listen((near) => {
    const far = connect(echo, '127.0.0.1');
    carry(near, far, link, { connects: true });
    carry(far, near, link, { connects: false });
  });
  const client = connect(port, '127.0.0.1');
  started.defer(() => void client.destroy());
  const owned = started.move();
  return { client, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const timed = async (work: () => Promise<unknown>) => {
  const began = performance.now();
  await work();
  return performance.now() - began;
};

test('a link takes its delay in each direction, and a round trip more for the connection', async () => {
  await using link = await behind({ delayMs: 50, bytesPerSecond: 1e9 });
  const echo = () =>
    timed(async () => {
      link.client.write('x');
      await once(link.client, 'data');
    });
  expect(await echo()).toBeGreaterThanOrEqual(195);
  expect(await echo()).toBeGreaterThanOrEqual(95);
});

test('a link passes all bytes in their order, no faster than its rate', async () => {
  await using link = await behind({ delayMs: 0, bytesPerSecond: 4e6 });
  const sent = Buffer.from(Uint32Array.from({ length: 2 ** 18 }, (_, i) => i).buffer);
  const received: Buffer[] = [];
  const isAll = new Promise<void>((resolve) => {
    link.client.on('data', (piece) => {
      received.push(piece);
      if (received.reduce((sum, { length }) => sum + length, 0) === sent.length) resolve();
    });
  });
  const ms = await timed(() => {
    link.client.write(sent);
    return isAll;
  });
  expect(Buffer.concat(received).equals(sent)).toBe(true);
  expect(ms).toBeGreaterThanOrEqual(250);
});
