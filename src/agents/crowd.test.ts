import { connect } from 'node:net';
import { performance } from 'node:perf_hooks';
import { expect, test } from 'vitest';
import { keyOf, makeKey, makeNode, startWithNode } from './_util.ts';

/** What many, or one that sends rubbish, do to the others at the same replica. */
type Setup = Awaited<ReturnType<typeof startWithNode>>;

/** Connections that announce a body and send one byte of it; resolves with what each of them heard. */
async function announce(setup: Setup, count: number, length: number) {
  const { hostname, port } = new URL(setup.replica.url);
  const received: string[] = [];
  const sockets = await Promise.all(
    Array.from({ length: count }, (_, i) => {
      received[i] = '';
      return new Promise<ReturnType<typeof connect>>((resolve) => {
        const socket = connect(Number(port), hostname, () => {
          socket.write(`POST /api/v3/agent/provision HTTP/1.1\r\nHost: c\r\nContent-Length: ${length}\r\n\r\n{`, () =>
            resolve(socket),
          );
        });
        socket.on('data', (chunk) => {
          received[i] = `${received[i]}${chunk}`;
        });
        socket.on('error', () => {});
      });
    }),
  );
  const statuses = () => received.map((text) => text.slice(9, 12)).filter(Boolean);
  return { statuses, [Symbol.dispose]: () => void sockets.map((socket) => socket.destroy()) };
}

test.for([128 * 1024, 16_000])(
  '512 unauthenticated clients that announce %i bytes each block no report',
  async (length) => {
    const setup = await startWithNode();
    await using _ = setup.replica;
    const { replica, node, key } = setup;
    using crowd = await announce(setup, 512, length);
    const report = () => replica.as(node, key, 'PUT', '/status', { body: { daemonStatus: 'RUNNING' } });
    await expect.poll(() => crowd.statuses().length, { timeout: 30_000 }).toBeGreaterThanOrEqual(512 - 256);
    expect((await report()).status).toBe(204);
  },
);

test('bodies that never end get 408 and count against their address', async () => {
  const setup = await startWithNode();
  await using _ = setup.replica;
  const { replica, clock } = setup;
  const provision = () => replica.call('POST', '/provision', { body: { key: 'x', type: 1 } });
  using crowd = await announce(setup, 40, 16_000);
  await expect.poll(() => replica.agents.routes.ready).toBe(true);
  await expect
    .poll(
      async () => {
        await clock.advance(11_000);
        return crowd.statuses().filter((status) => status === '408').length;
      },
      { timeout: 30_000 },
    )
    .toBe(40);
  expect((await provision()).status).toBe(429);
});

test('a report of a million empty items costs less CPU than parsing its JSON would', async () => {
  const setup = await startWithNode();
  await using _ = setup.replica;
  const { replica, node, key } = setup;
  const body = `{"microserviceStatus":[${Array(1_398_000).fill('{}').join()}]}`;
  const began = performance.now();
  JSON.parse(body);
  const parsing = performance.now() - began;
  let longest = 0;
  let last = performance.now();
  const beat = setInterval(() => {
    longest = Math.max(longest, performance.now() - last);
    last = performance.now();
  }, 1);
  const answer = await replica.as(node, key, 'PUT', '/status', { body });
  clearInterval(beat);
  expect(answer.status).toBe(400);
  expect(longest, `while parsing takes ${parsing} ms`).toBeLessThan(parsing);
});

test('a node that sends invalid reports gets 429, others do not', async () => {
  const setup = await startWithNode();
  await using _ = setup.replica;
  const { replica, node, key } = setup;
  const [other, otherKey] = [makeNode('edge-2'), makeKey()];
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, otherKey));
  const body = { microserviceStatus: Array(500).fill({ id: 'a', status: 'RUNNING', ports: [{}, {}] }) };
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await replica.as(node, key, 'PUT', '/status', { body })).status);
  expect(statuses).toEqual([204, 204, 429, 429]);
  expect((await replica.as(other, otherKey, 'PUT', '/status', { body: { cpuUsage: 1 } })).status).toBe(204);
});
