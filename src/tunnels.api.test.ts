import { expect, test } from 'vitest';
import type {} from '../hack/testing/provided.ts';
import { ANNOTATIONS } from './api/names.ts';
import { CORE_RESOURCES } from './api/resources.ts';
import type { EdgeNode } from './api/v3/index.ts';
import { startTestCluster } from './rest/_cluster.ts';
import { RESOURCES } from './subjects/kinds.ts';

/** Tunnels on a real API server, with two replicas of the controller, of which one leads. */
const cluster = await startTestCluster();
const { kube, namespace } = cluster;
const ENV = {
  TUNNEL_HOST: 'bastion.example',
  TUNNEL_USERNAME: 'tunnel',
  TUNNEL_PORT_RANGE: '3000-3002',
  SKERRY_TUNNEL_SECRET: 'tunnels',
};
const replicas = [await cluster.startController(ENV), await cluster.startController(ENV)];
const [first] = replicas as [(typeof replicas)[0]];
let live = first;

const stored = (name: string): Promise<EdgeNode> => kube.get(RESOURCES.nodes, { namespace, name });
const annotate = (name: string, action: string | null) =>
  kube.patch(
    RESOURCES.nodes,
    { namespace, name },
    { type: 'merge', body: { metadata: { annotations: { [ANNOTATIONS.tunnel]: action } } } },
  );
const tunnelOf = async (name: string) => (await stored(name)).status?.tunnel;
const conditionOf = async (name: string) =>
  (await stored(name)).status?.conditions?.find(({ type }) => type === 'TunnelFailed')?.reason;

test('a tunnel is opened over REST and with kubectl, each port belongs to one node, and the next leader keeps them', async () => {
  for (const { client } of replicas) await expect.poll(async () => (await client.get('/status')).status).toBe(200);
  await expect.poll(() => replicas.some(({ app }) => app.isLeading)).toBe(true);
  const admin = first.client.as(await cluster.token('admin'));
  const uuids = new Map<string, string>();
  for (const name of ['gw-1', 'gw-2', 'gw-3', 'gw-4'])
    uuids.set(name, (await admin.post('/node', { json: { name } })).body.uuid);
  const uuid = uuids.get('gw-1');
  expect(await admin.get(`/node/${uuid}/tunnel`)).toMatchObject({ status: 404, body: { code: 'TUNNEL_NOT_FOUND' } });
  const open = { json: { action: 'open' } };
  expect(await admin.patch(`/node/${uuid}/tunnel`, open)).toMatchObject({
    status: 400,
    body: { code: 'TUNNEL_NOT_CONFIGURED', message: expect.stringContaining('there is no Secret tunnels') },
  });
  const encoded = (text: string) => Buffer.from(text).toString('base64');
  await kube.create(CORE_RESOURCES.secrets, {
    ...{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'tunnels', namespace } },
    data: { rsaKey: encoded('KEY'), knownHosts: encoded('hosts') },
  });
  await expect.poll(async () => (await admin.patch(`/node/${uuid}/tunnel`, open)).status).toBe(204);
  await Promise.all(['gw-2', 'gw-3', 'gw-4'].map((name) => annotate(name, 'open')));
  const states = async () => Promise.all([...uuids.keys()].map(async (name) => (await tunnelOf(name))?.remotePort));
  await expect
    .poll(async () => (await states()).filter((port) => port !== undefined).sort())
    .toEqual([3000, 3001, 3002]);
  const before = await states();
  const without = [...uuids.keys()][before.indexOf(undefined)] as string;
  await expect.poll(() => conditionOf(without)).toBe('TunnelPortsUsedUp');

  const [leader, other] = first.app.isLeading ? replicas : [...replicas].reverse();
  expect([leader?.app.isLeading, other?.app.isLeading]).toEqual([true, false]);
  await leader?.app[Symbol.asyncDispose]();
  await expect.poll(() => other?.app.isLeading, { timeout: 60_000 }).toBe(true);
  live = other ?? first;
  // The next leader has reconciled every node once it gives the port of a closed tunnel to the node that waits.
  const closed = [...uuids.keys()].find((name) => name !== without) as string;
  const port = (await tunnelOf(closed))?.remotePort;
  await annotate(closed, null);
  await expect.poll(() => tunnelOf(without), { timeout: 60_000 }).toEqual({ remotePort: port, state: 'open' });
  await expect.poll(() => conditionOf(without)).toBeUndefined();
  const after = await states();
  for (const [index, name] of [...uuids.keys()].entries())
    if (name !== closed && name !== without) expect(after[index]).toBe(before[index]);
});

test('a tunnel may be read by a developer, and opened and closed by an sre', async () => {
  const as = async (role: Parameters<typeof cluster.token>[0]) => live.client.as(await cluster.token(role));
  const { uuid } = (await (await as('admin')).post('/node', { json: { name: 'gw-5' } })).body;
  const change = async (role: Parameters<typeof as>[0], action: string) =>
    (await (await as(role)).patch(`/node/${uuid}/tunnel`, { json: { action } })).status;
  const read = async (role: Parameters<typeof as>[0]) => (await (await as(role)).get(`/node/${uuid}/tunnel`)).status;
  expect(await change('sre', 'open')).toBe(204);
  expect([await change('developer', 'close'), await change('viewer', 'close')]).toEqual([403, 403]);
  expect([await read('sre'), await read('developer'), await read('viewer')]).toEqual([200, 200, 403]);
  expect(await change('sre', 'close')).toBe(204);
  expect((await live.client.get(`/node/${uuid}/tunnel`)).status).toBe(401);
});

test('a status that no leader writes is refused by the API server', async () => {
  const { metadata } = await stored('gw-1');
  for (const tunnel of [
    { remotePort: 0, state: 'open' },
    { remotePort: 3000, state: 'opened' },
    { remotePort: null, state: 'open' },
  ])
    await expect(
      kube.patch(
        RESOURCES.nodes,
        { namespace, name: metadata.name },
        {
          type: 'merge',
          body: { status: { observedGeneration: 1, tunnel } },
        },
        { subresource: 'status' },
      ),
    ).rejects.toThrow(/tunnel/);
});
