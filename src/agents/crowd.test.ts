import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { storedNode, storedSecret, storedVolumeMount } from '../../testing/stored.ts';
import { LABELS } from '../api/names.ts';
import type { EdgeNode } from '../api/v3/index.ts';
import { keyOf, makeEmptyClient, makeKey, makeToken, provisioningKeyOf, startWithNode, type TestKey } from './_util.ts';

/** What many, or one that sends rubbish, do to the others at the same replica. */
type Setup = Awaited<ReturnType<typeof startWithNode>>;

/** Connections that announce a body and send a part of it; resolves with the statuses that they got. */
async function announce(setup: Setup, count: number, length: number, part = '{') {
  const { hostname, port } = new URL(setup.replica.url);
  const received: string[] = [];
  const sockets = await Promise.all(
    Array.from({ length: count }, (_, i) => {
      received[i] = '';
      return new Promise<ReturnType<typeof connect>>((resolve) => {
        const socket = connect(Number(port), hostname, () => {
          socket.write(
            `POST /api/v3/agent/provision HTTP/1.1\r\nHost: c\r\nContent-Length: ${length}\r\n\r\n${part}`,
            () => resolve(socket),
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
    const { replica, node, key } = setup;
    using crowd = await announce(setup, 512, length);
    const report = () => replica.as(node, key, 'PUT', '/status', { body: { daemonStatus: 'RUNNING' } });
    await expect.poll(() => crowd.statuses().length, { timeout: 30_000 }).toBeGreaterThanOrEqual(512 - 256);
    expect((await report()).status).toBe(204);
  },
);

test.for([
  ['300 bodies of which one byte has come', 300, '{'],
  ['80 bodies of which all but one byte has come', 80, ' '.repeat(16_383)],
] as const)('%s do not keep out a machine that provisions behind their address', async ([, count, part]) => {
  const setup = await startWithNode({ client: makeEmptyClient() });
  const { replica } = setup;
  const machine = storedNode('edge-2');
  // 64 of the bodies leave no room for as many bytes.
  const key = 'a'.repeat(64);
  replica.stores.nodes.set(machine);
  replica.stores.secrets.set(provisioningKeyOf(machine, key));
  using crowd = await announce(setup, count, 16_384, part);
  // The bodies fill the budget of their address: those beyond it have their status.
  await expect.poll(() => crowd.statuses().length, { timeout: 30_000 }).toBeGreaterThan(0);
  const answer = await replica.call('POST', '/provision', { body: { key, type: 1 } });
  expect(answer).toMatchObject({ status: 200, body: { uuid: machine.spec.uuid } });
});

test('bodies that never end get 408 and count against their address', async () => {
  const setup = await startWithNode();
  const { replica, clock } = setup;
  const provision = () => replica.call('POST', '/provision', { body: { key: 'x', type: 1 } });
  using crowd = await announce(setup, 40, 16_000);
  await expect.poll(() => replica.agents.routes.ready).toBe(true);
  await expect
    .poll(
      async () => {
        await clock.advance(11_000, { timers: 0 });
        return crowd.statuses().filter((status) => status === '408').length;
      },
      { timeout: 30_000 },
    )
    .toBe(40);
  expect((await provision()).status).toBe(429);
});

/** Of this thread, ms: others on its core do not count. */
const cpu = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};

test('a report of a million empty items costs less CPU than parsing its JSON would', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  const body = `{"microserviceStatus":[${Array(1_398_000).fill('{}').join()}]}`;
  const began = cpu();
  JSON.parse(body);
  const parsing = cpu() - began;
  let longest = 0;
  let last = cpu();
  const beat = setInterval(() => {
    longest = Math.max(longest, cpu() - last);
    last = cpu();
  }, 1);
  const answer = await replica.as(node, key, 'PUT', '/status', { body });
  clearInterval(beat);
  expect(answer.status).toBe(400);
  expect(longest, `while parsing takes ${parsing} ms`).toBeLessThan(parsing);
});

test('a node that sends invalid reports gets 429, others do not', async () => {
  const setup = await startWithNode();
  const { replica, node, key } = setup;
  const [other, otherKey] = [storedNode('edge-2'), makeKey()];
  replica.stores.nodes.set(other);
  replica.stores.secrets.set(keyOf(other, otherKey));
  const body = { microserviceStatus: Array(500).fill({ id: 'a', status: 'RUNNING', ports: [{}, {}] }) };
  const statuses: number[] = [];
  for (let i = 0; i < 4; i++) statuses.push((await replica.as(node, key, 'PUT', '/status', { body })).status);
  expect(statuses).toEqual([204, 204, 429, 429]);
  expect((await replica.as(other, otherKey, 'PUT', '/status', { body: { cpuUsage: 1 } })).status).toBe(204);
});

const MIB = 2 ** 20;
const MOUNTS = '/volumeMounts';

/** Nodes that are linked to one volume mount of 12 MiB at a replica that sends 48 MiB at once, and 28 MiB to each. */
async function startWithMounts(count: number) {
  const sending = { all: { bytes: 64 * MIB, messages: 100 }, node: { bytes: 28 * MIB, messages: 4 } };
  const setup = await startWithNode({ limits: { sending } });
  const { stores } = setup.replica;
  const nodes = Array.from({ length: count }, (_, i) => ({ node: storedNode(`site-${i}`), key: makeKey() }));
  for (const { node, key } of nodes) {
    stores.nodes.set(node);
    stores.secrets.set(keyOf(node, key));
  }
  const shareable = { labels: { [LABELS.shareable]: 'true' } };
  stores.secrets.set(storedSecret('large', { file: randomBytes(6.75 * MIB).toString('base64') }, shareable));
  const names = nodes.map(({ node }) => node.metadata.name);
  stores.volumeMounts.set(storedVolumeMount('large', { secretName: 'large', nodes: names }));
  return { ...setup, nodes };
}

/** A connection that requests the volume mounts so many times without reading what comes back. */
async function request(
  { replica, clock }: Setup,
  { node, key }: { node: EdgeNode; key: TestKey },
  times = 1,
  head = '',
) {
  const { hostname, port } = new URL(replica.url);
  const socket = connect(Number(port), hostname);
  await once(socket, 'connect');
  socket.on('error', () => {});
  for (let i = 0; i < times; i++) {
    const token = makeToken(node.spec.uuid ?? '', key, clock.wall());
    socket.write(`GET /api/v3/agent${MOUNTS} HTTP/1.1\r\nHost: c\r\nAuthorization: Bearer ${token}\r\n${head}\r\n`);
  }
  return socket;
}

test('responses that their clients do not read are bounded: beyond it 503 with Retry-After, small ones go on', async () => {
  const setup = await startWithMounts(8);
  const { replica, nodes } = setup;
  const sockets = [];
  for (const one of nodes.slice(0, 3)) sockets.push(await request(setup, one));
  const [other] = nodes.slice(-1);
  if (!other) return;
  const read = (path: string) => replica.as(other.node, other.key, 'GET', path);
  await expect.poll(async () => (await read(MOUNTS)).status, { timeout: 20_000 }).toBe(503);
  const refused = await read(MOUNTS);
  expect(refused.body).toMatchObject({ code: 'CONTROLLER_NOT_READY', retryable: true });
  expect(refused.headers['retry-after']).toBe('5');
  expect((await read('/registries')).status).toBe(200);

  for (const socket of sockets) socket.destroy();
  await expect.poll(async () => (await read(MOUNTS)).status, { timeout: 20_000 }).toBe(200);
  // A response that was read is charged no longer.
  for (let i = 0; i < 4; i++) expect((await read(MOUNTS)).status).toBe(200);
});

test.for([
  ['whose second response waits for its first', ''],
  ['that gets compressed responses', 'Accept-Encoding: gzip\r\n'],
] as const)('a client that is gone, %s, is charged no longer', async ([, head]) => {
  const setup = await startWithMounts(1);
  const [one] = setup.nodes;
  if (!one) return;
  const read = (path: string) => setup.replica.as(one.node, one.key, 'GET', path);
  const status = async () => (await read(MOUNTS)).status;
  const socket = await request(setup, one, 2, head);
  await expect.poll(status, { timeout: 20_000 }).toBe(503);
  socket.destroy();
  await expect.poll(status, { timeout: 20_000 }).toBe(200);
  // Two responses have room again, one of them not read.
  const stalled = await request(setup, one);
  await once(stalled, 'readable');
  await expect.poll(status, { timeout: 20_000 }).toBe(200);
});
