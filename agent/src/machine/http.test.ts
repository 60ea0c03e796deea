import { createServer, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { listenForTest } from '../../../testing/local-server.ts';
import { closeIdle, exchange, keepAlive } from './http.ts';

/** Requests over slow and faulty connections, on real sockets. */

const MIB = 1024 * 1024;
const PIECE = 'x'.repeat(2048);

async function request(write: (response: ServerResponse) => Promise<void>, deadline = 300, body?: string) {
  const server = createServer((incoming, outgoing) => {
    incoming.resume();
    void write(outgoing);
  });
  const origin = new URL(`http://127.0.0.1:${await listenForTest(server)}`);
  return exchange({ target: { origin }, method: 'POST', path: '/', deadline, body }, MIB);
}

async function pieces(response: ServerResponse, piece: string, count: number): Promise<void> {
  for (let sent = 0; sent < count && !response.destroyed; sent++) {
    response.write(piece);
    await sleep(50);
  }
}

test('a large response over a slow connection arrives, although it takes longer than the deadline', async () => {
  const answer = await request(async (response) => {
    await pieces(response, PIECE, 20);
    response.end();
  });
  expect(answer.body).toHaveLength(20 * PIECE.length);
});

test('a compressed response is decompressed', async () => {
  const answer = await request(async (response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' });
    response.end(gzipSync('x'.repeat(50_000)));
  });
  expect(answer.body).toBe('x'.repeat(50_000));
});

const packed = (body: Buffer, encoding: string) => async (response: ServerResponse) => {
  response.writeHead(200, { 'content-encoding': encoding });
  response.end(body);
};
const broken: Record<string, { write: (response: ServerResponse) => Promise<void>; code: string }> = {
  'that never begins': { write: async () => {}, code: 'TIMEOUT' },
  'that stops in the middle': { write: (response) => pieces(response, PIECE, 3), code: 'TIMEOUT' },
  'that arrives byte by byte': { write: (response) => pieces(response, '.', 1000), code: 'TIMEOUT' },
  'that is cut in the middle': {
    write: async (response) => {
      response.writeHead(200, { 'content-length': '100000' });
      await pieces(response, PIECE, 2);
      response.destroy();
    },
    code: 'ECONNRESET',
  },
  'whose Content-Length is too large': {
    write: async (response) => void response.writeHead(200, { 'content-length': String(2 * MIB) }).write(PIECE),
    code: 'TOO_LARGE',
  },
  'that is too large when it is decompressed': {
    write: packed(gzipSync('x'.repeat(2 * MIB)), 'gzip'),
    code: 'TOO_LARGE',
  },
  'that is not valid gzip': { write: packed(Buffer.from('rubbish'), 'gzip'), code: 'ENCODING' },
  'with an encoding that was not accepted': { write: packed(gzipSync('x'), 'br'), code: 'ENCODING' },
  'that grows too large': { write: (response) => pieces(response, 'x'.repeat(300 * 1024), 10), code: 'TOO_LARGE' },
};
for (const [name, { write, code }] of Object.entries(broken))
  test(`a response ${name} is an error soon after the deadline`, async () => {
    const began = performance.now();
    await expect(request(write)).rejects.toMatchObject({ name: 'TransportError', code });
    expect(performance.now() - began).toBeLessThan(6_000);
  });

test('closeIdle closes idle connections and lets a pending request finish', async () => {
  const open = new Set<unknown>();
  const server = createServer((_, outgoing) => void setTimeout(() => outgoing.end('x'), 50));
  server.keepAliveTimeout = 60_000;
  server.on('connection', (socket) => {
    open.add(socket);
    socket.on('close', () => open.delete(socket));
  });
  const origin = new URL(`http://127.0.0.1:${await listenForTest(server)}`);
  const connections = keepAlive(origin);
  const ask = () => exchange({ target: { origin }, method: 'GET', path: '/', deadline: 5_000, connections }, MIB);
  await Promise.all([ask(), ask(), ask()]);
  await ask();
  expect(open.size).toBe(3);
  const underWay = ask();
  await sleep(20);
  closeIdle(connections);
  expect((await underWay).body).toBe('x');
  while (open.size > 1) await sleep(5);
  connections.destroy();
});

test('a request to a name that does not resolve says so in words', async () => {
  const target = { origin: new URL('http://nowhere.invalid') };
  await expect(exchange({ target, method: 'GET', path: '/', deadline: 20_000 }, MIB)).rejects.toThrow(
    /^the name nowhere\.invalid does not resolve \((ENOTFOUND|EAI_AGAIN)\)$/,
  );
});
