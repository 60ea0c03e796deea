import { expect, test } from 'vitest';
import { storedNode } from '../../../testing/stored.ts';
import { createStore } from '../../kube/mod.ts';
import { fill, keyOf, makeClock, makeKey, makeStores, startReplica, startWithNode } from '../_util.ts';
import { createPipeline, type PipelineOptions } from './pipeline.ts';

test('a request takes the steps of the pipeline in this order', () => {
  const pipeline = createPipeline({} as PipelineOptions);
  expect(pipeline.steps).toEqual([
    'ready',
    'matched',
    'authenticated',
    'received',
    'notOlderThan',
    'epoch',
    'handled',
    'positioned',
  ]);
});

test('a replica that is not ready sends 503 to a path that does not exist', async () => {
  const clock = makeClock();
  await using replica = await startReplica({ clock });
  const response = replica.call('GET', '/nothing');
  await clock.advance(5_000, { timers: 2 });
  expect(await response).toMatchObject({ status: 503, body: { code: 'CONTROLLER_NOT_READY' } });
});

test('a path that does not exist gets 404 without a token', async () => {
  const { replica } = await startWithNode();
  expect(await replica.call('GET', '/nothing')).toMatchObject({ status: 404, body: { code: 'ROUTE_NOT_FOUND' } });
});

test.each([
  ['/changes', 'POST'],
  ['/microservices/5f0e2c1e-0000-4000-8000-000000000000', 'DELETE'],
])('%s gets 405 for a method that it does not have', async (path, method) => {
  const { replica } = await startWithNode();
  expect(await replica.call(method, path)).toMatchObject({ status: 405, body: { code: 'METHOD_NOT_ALLOWED' } });
});

test('a request without a token gets 401 before its body is read', async () => {
  const { replica } = await startWithNode();
  expect(await replica.call('PUT', '/status', { body: '{"not json' })).toMatchObject({ status: 401 });
});

test('a store of another kind that is never complete does not keep agents waiting', async () => {
  const clock = makeClock();
  const [node, key] = [storedNode('edge-1'), makeKey()];
  const other = createStore({
    resource: { apiVersion: 'skerry.dev/v3', kind: 'Toy', plural: 'toys' } as never,
    indexes: {},
  });
  const stores = { ...makeStores(), toys: other };
  await using replica = await startReplica({ clock, stores });
  fill(stores, { nodes: [node], secrets: [keyOf(node, key)] });
  await clock.advance(1_000, { timers: 0 });
  expect(other.synced).toBe(false);
  expect((await replica.as(node, key, 'GET', '/changes')).status).toBe(200);
});

test('a bound of another datastore that is ahead of the API server is not sent back', async () => {
  const client = { listPage: async () => ({ items: [], resourceVersion: '2' }) };
  const { clock, node, key, replica } = await startWithNode({ client: client as never });
  let isServed = false;
  const response = replica
    .as(node, key, 'GET', '/registries', { headers: { 'skerry-not-older-than': 'old:900000' } })
    .finally(() => {
      isServed = true;
    });
  while (!isServed) {
    await clock.advance(50, { timers: 0 });
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
  const { status, headers } = await response;
  expect(status).toBe(200);
  expect(headers['skerry-not-older-than']).toMatch(/^[\w-]{36}:nodes=\d{1,5},/);
});

test('the connection of an authenticated agent counts as that of its node, and no other connection does', async () => {
  const known: string[] = [];
  const { replica, node, key } = await startWithNode({ authenticated: (_, caller) => void known.push(caller) });
  await replica.call('GET', '/registries');
  expect(known).toEqual([]);
  expect((await replica.as(node, key, 'GET', '/registries')).status).toBe(200);
  expect(known).toEqual([`node ${node.spec.uuid}`]);
});
