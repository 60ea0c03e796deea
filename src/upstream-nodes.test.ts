import { afterAll, expect, test } from 'vitest';
import { NAMESPACE, startInMemoryController } from '../testing/in-memory-controller.ts';
import type { EdgeNode } from './api/v3/index.ts';

/** Nodes that name others as routers or bus servers, written with kubectl and judged by the reconciler. */
const fleet = await startInMemoryController(0);
afterAll(() => fleet[Symbol.asyncDispose]());

const stored = (name: string) => fleet.stores.nodes.get(NAMESPACE, name) as EdgeNode;
const refusedOf = (name: string) => stored(name).status?.conditions?.find(({ type }) => type === 'SettingsRefused');
const platformOf = (name: string) => {
  const { phase, lastError } = stored(name).status?.platformStatus ?? {};
  return { phase, lastError };
};

async function create(name: string, spec: EdgeNode['spec']) {
  const metadata = { name, namespace: NAMESPACE };
  const node = { apiVersion: 'skerry.dev/v3', kind: 'EdgeNode', metadata, spec } as EdgeNode;
  await fleet.cluster.client.create(fleet.stores.nodes.resource, node);
  await fleet.settle();
}

async function edit(name: string, change: (node: EdgeNode) => void) {
  fleet.cluster.edit(stored(name), change);
  await fleet.settle();
}

async function remove(name: string) {
  await fleet.cluster.client.delete(fleet.stores.nodes.resource, { name, namespace: NAMESPACE });
  await fleet.settle();
}

test('a node says what is wrong with the router that it names, until that is a router that it can connect to', async () => {
  const missing = 'upstreamRouters: there is no node "core"';
  await create('leaf', { upstreamRouters: ['core'] });
  expect(refusedOf('leaf')).toMatchObject({ status: 'True', reason: 'NodeNotFound', message: missing });
  expect(platformOf('leaf')).toEqual({ phase: 'Failed', lastError: missing });
  expect(
    fleet.events.filter(({ of }) => of === 'EdgeNode leaf').map(({ reason, note }) => [reason, note]),
  ).toContainEqual(['NodeNotFound', missing]);

  await create('core', { routerMode: 'edge' });
  const wrongMode = 'upstreamRouters: the router of "core" is of mode edge; others connect to those of mode interior';
  expect(refusedOf('leaf')).toMatchObject({ reason: 'RouterWrongMode', message: wrongMode });

  await edit('core', ({ spec }) => {
    spec.routerMode = 'interior';
  });
  expect(refusedOf('leaf')).toBeUndefined();
  expect(platformOf('leaf')).toEqual({ phase: 'Ready', lastError: undefined });

  await remove('core');
  expect(refusedOf('leaf')).toMatchObject({ reason: 'NodeNotFound', message: missing });
  // REST says the same in the same words, and only for what a write adds.
  const admin = { token: 'admin' };
  const path = `/node/${stored('leaf').status?.uuid}`;
  expect(
    await fleet.request('POST', '/node', { ...admin, body: { name: 'x', upstreamRouters: ['core'] } }),
  ).toMatchObject({
    status: 404,
    body: { code: 'INVALID_ROUTER', message: missing },
  });
  expect(
    (await fleet.request('PATCH', path, { ...admin, body: { upstreamRouters: ['core'], location: 'hall' } })).status,
  ).toBe(204);
});

test('a bus server is judged like a router', async () => {
  await create('satellite', { upstreamBusServers: ['station'] });
  expect(refusedOf('satellite')?.message).toBe('upstreamBusServers: there is no node "station"');
  await create('station', { busMode: 'leaf' });
  expect(refusedOf('satellite')).toMatchObject({ reason: 'BusServerWrongMode' });
  await edit('station', ({ spec }) => {
    spec.busMode = 'server';
  });
  expect(refusedOf('satellite')).toBeUndefined();
});

test('a router that others connect to stays interior over REST', async () => {
  const admin = { token: 'admin' };
  await create('trunk', { routerMode: 'interior', host: '10.0.0.1' });
  await create('branch', { upstreamRouters: ['trunk'] });
  const path = `/node/${stored('trunk').status?.uuid}`;
  expect(await fleet.request('PATCH', path, { ...admin, body: { routerMode: 'edge' } })).toMatchObject({
    status: 400,
    body: { code: 'EDGE_ROUTER_HAS_DOWNSTREAM', message: expect.stringMatching(/^routerMode: .*: branch$/) },
  });
  await remove('branch');
  expect((await fleet.request('PATCH', path, { ...admin, body: { routerMode: 'edge' } })).status).toBe(204);
});
