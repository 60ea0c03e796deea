import { describe, expect, test } from 'vitest';
import { NAMESPACE } from '../../../../testing/in-memory-controller.ts';
import type { EdgeNode } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import { CORE_SERVICES, servicesInMemory } from '../_fleet.ts';

/** A controller in memory: the steps of services, their ports, their Services of the cluster, and their backends. */
const on = servicesInMemory(2);
const { service, ready, inCluster, send } = on;

const external = {
  ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};
const create = (name: string, body: object = external) => send('POST', '/services', { name, ...body });
const node = (i = 0) => on.fleet.stores.nodes.get(NAMESPACE, `gateway-${i}`) as EdgeNode;
async function editNode(change: (spec: EdgeNode['spec']) => void, i = 0) {
  on.fleet.cluster.edit(node(i), (copy) => change(copy.spec));
  await on.fleet.settle();
}
/** A microservice of its own on a node with a router. */
async function makeShop(): Promise<string> {
  await editNode((spec) => Object.assign(spec, { routerMode: 'edge' }));
  const microservices = [{ name: 'web', agentName: 'gateway-0', images: [{ containerImage: 'a:1', archId: 1 }] }];
  expect((await send('POST', '/application', { name: 'shop', microservices })).status).toBe(201);
  const listed = await send('GET', '/microservices?application=shop');
  return (listed.body.microservices as { uuid: string }[])[0]?.uuid ?? '';
}
const ofShop = { ...external, type: 'microservice', resource: 'shop/web', targetPort: 80 };

describe('a service', () => {
  test('has the lowest port that is free, written down before its Service of the cluster exists, and keeps it', async () => {
    // Services that are there from the start have the two ports before.
    on.fleet.time.now += 600_000;
    const answer = await create('db');
    expect(answer).toMatchObject({ status: 201, body: { provisioningStatus: 'pending', bridgePort: null } });
    await create('log');
    expect([service('db'), service('log')].map((one) => one?.status?.bridgePort)).toEqual([10_026, 10_027]);
    expect(ready('db')).toMatchObject({ status: 'True', reason: 'Usable' });
    expect(service('db')?.status).toMatchObject({ provisioningStatus: 'ready' });
    await send('PATCH', '/services/db', { targetPort: 1, tags: ['all'] });
    expect(service('db')?.status).toMatchObject({ bridgePort: 10_026, provisioningStatus: 'ready' });
    await on.fleet.nextTerm();
    expect(service('db')?.status).toMatchObject({ bridgePort: 10_026 });
  });

  test('leads its Service of the cluster to its port at the router of the hub, with its tags as annotations', async () => {
    await create('db', { ...external, tags: ['all', 'example.com/class: fast: cut', 'no key!'] });
    const made = await inCluster('db');
    expect(made?.spec).toEqual({
      type: 'ClusterIP',
      selector: { 'skerry.dev/component': 'router' },
      ports: [{ name: 'service', port: 80, protocol: 'TCP', targetPort: service('db')?.status?.bridgePort }],
    });
    expect(made?.metadata).toMatchObject({
      labels: {
        'app.kubernetes.io/name': 'skerry',
        'app.kubernetes.io/component': 'controller',
        'app.kubernetes.io/managed-by': 'controller',
        'app.kubernetes.io/instance': 'skerry',
        'skerry.dev/component': 'router',
      },
      annotations: { all: '', 'example.com/class': 'fast' },
      ownerReferences: [{ kind: 'Service', name: 'db', controller: true }],
    });
    expect(ready('db')).toMatchObject({ status: 'True', message: expect.stringContaining('"no key!"') });
    await send('PATCH', '/services/db', { clusterType: 'NodePort', servicePort: 81 });
    expect((await inCluster('db'))?.spec).toMatchObject({ type: 'NodePort', ports: [{ port: 81 }] });
  });

  test('gets no port that the default router has for itself, until the router has another one', async () => {
    const first = 10_026;
    expect(
      (await send('PUT', '/router', { host: 'r.example', messagingPort: first, edgeRouterPort: first + 1 })).status,
    ).toBe(200);
    on.fleet.time.now += 600_000;
    await create('db');
    expect(service('db')?.status?.bridgePort).toBe(first + 2);
    await send('PUT', '/router', { host: 'r.example', edgeRouterPort: first + 1 });
    await create('log');
    expect(service('log')?.status?.bridgePort).toBe(first);
  });

  test('writes nothing at rest, nor when its controller starts again', async () => {
    await create('db');
    const writes = () => JSON.stringify([...on.fleet.cluster.writes].filter(([verb]) => verb.includes('services')));
    const before = writes();
    await on.fleet.nextTerm();
    await on.fleet.settle();
    expect(writes()).toBe(before);
  });

  test('leaves a Service of the cluster that is not its own as it is, and says so', async () => {
    const foreign = { ...{ apiVersion: 'v1', kind: 'Service' }, metadata: { name: 'train', namespace: NAMESPACE } };
    const spec = { type: 'ClusterIP', selector: { app: 'train' }, ports: [] };
    await on.fleet.cluster.client.create(CORE_SERVICES, { ...foreign, spec });
    await create('train');
    expect(ready('train')).toMatchObject({ status: 'False', reason: 'NameTaken' });
    expect(service('train')?.status).toMatchObject({ provisioningStatus: 'pending', attempts: 1 });
    expect((await inCluster('train'))?.spec).toEqual(spec);
    await send('DELETE', '/services/train');
    expect((await inCluster('train'))?.spec).toEqual(spec);
  });

  test('fails after ten attempts, and is attempted again by the route', async () => {
    const metadata = { name: 'other', namespace: NAMESPACE };
    await on.fleet.cluster.client.create(CORE_SERVICES, {
      ...{ apiVersion: 'v1', kind: 'Service', metadata },
      spec: { type: 'ClusterIP', selector: {}, ports: [] },
    });
    await create('other');
    for (let attempt = 2; attempt <= 10; attempt++) {
      on.fleet.time.now += 1_000_000;
      // An edit of what it names is one of the reasons to look again.
      on.fleet.cluster.edit(service('other') as never, (copy: { metadata: object }) =>
        Object.assign(copy.metadata, { labels: { round: String(attempt) } }),
      );
      await on.fleet.settle();
    }
    expect(service('other')?.status).toMatchObject({ provisioningStatus: 'failed', attempts: 10 });
    const failed = await send('GET', '/services/other');
    expect(failed.body).toMatchObject({
      provisioningStatus: 'failed',
      provisioningError: expect.stringContaining('other'),
    });
    const again = await send('POST', '/services/other/reconcile');
    expect(again).toMatchObject({ status: 200, body: { provisioningStatus: 'pending', provisioningError: null } });
    expect(service('other')?.status).toMatchObject({ provisioningStatus: 'pending', attempts: 1, reconciles: 1 });
    await on.fleet.cluster.client.delete(CORE_SERVICES, metadata);
    await send('POST', '/services/other/reconcile');
    expect(service('other')?.status).toMatchObject({ provisioningStatus: 'ready', reconciles: 2 });
  });

  test.each([
    ['microservice', { type: 'microservice', resource: 'shop/none' }, 404, 'INVALID_MICROSERVICE_UUID'],
    ['node', { type: 'agent', resource: 'gateway-9' }, 404, 'INVALID_NODE_UUID'],
    ['router', { type: 'agent', resource: 'gateway-1' }, 400, 'SERVICE_ROUTER_MODE_NONE'],
  ])(
    'is refused over REST without its %s, and Ready of an object of kubectl says the same',
    async (_, wrong, status, code) => {
      await editNode((spec) => delete spec.routerMode, 1);
      const refused = await create('lost', { ...external, ...wrong });
      expect(refused).toMatchObject({ status, body: { code } });
      const metadata = { name: 'lost', namespace: NAMESPACE };
      const { resource } = on.fleet.stores.services;
      await on.fleet.cluster.client.create(resource, {
        ...{ apiVersion: 'skerry.dev/v3', kind: 'Service', metadata },
        spec: { ...external, ...wrong },
      } as never);
      await on.fleet.settle();
      expect(ready('lost')).toMatchObject({ status: 'False', message: refused.body.message });
      expect(service('lost')?.status).toMatchObject({ provisioningStatus: 'failed' });
      expect(service('lost')?.status?.bridgePort).toBeUndefined();
    },
  );
});

describe('a service of a microservice', () => {
  test('is stored with the uuid of the microservice', async () => {
    const uuid = await makeShop();
    const answer = await create('web', ofShop);
    expect(answer).toMatchObject({ status: 201, body: { resource: uuid } });
    expect(service('web')).toMatchObject({ spec: { resource: uuid }, status: { backend: { uuid, object: 'shop' } } });
    expect(ready('web')).toMatchObject({ status: 'True' });
  });

  test('follows the mode of the node, and tells a change of other members from it', async () => {
    await makeShop();
    await create('web', ofShop);
    await editNode((spec) => Object.assign(spec, { routerMode: 'none' }));
    expect(ready('web')).toMatchObject({ status: 'False', reason: 'RouterNone' });
    expect((await send('PATCH', '/services/web', { tags: ['x'] })).status).toBe(200);
    await editNode((spec) => Object.assign(spec, { routerMode: 'interior' }));
    expect(ready('web')).toMatchObject({ status: 'True' });
  });

  test('is deleted with the microservice, though nobody led when that was deleted', async () => {
    await makeShop();
    await create('web', ofShop);
    await create('db');
    expect((await send('DELETE', '/application/shop')).status).toBe(204);
    await on.fleet.nextTerm();
    expect([service('web'), service('db')?.metadata.name]).toEqual([undefined, 'db']);
  });

  test('stays when its backend was never seen', async () => {
    const { resource } = on.fleet.stores.services;
    await on.fleet.cluster.client.create(resource, {
      ...{ apiVersion: 'skerry.dev/v3', kind: 'Service', metadata: { name: 'early', namespace: NAMESPACE } },
      spec: ofShop,
    } as never);
    await on.fleet.settle();
    expect(ready('early')).toMatchObject({ reason: 'MicroserviceNotFound' });
    await makeShop();
    await on.fleet.settle();
    expect(ready('early')).toMatchObject({ status: 'True' });
  });

  test('keeps its microservice when a PATCH names none', async () => {
    const uuid = await makeShop();
    await create('web', ofShop);
    const changed = await send('PATCH', '/services/web', { resource: 'db.example' });
    expect(changed).toMatchObject({ status: 404 });
    expect(service('web')?.spec.resource).toBe(uuid);
  });

  test('is deleted with the node that it leads to', async () => {
    const made = await send('POST', '/node', { name: 'spare', archId: 1, routerMode: 'edge', host: 'spare.example' });
    expect(made, JSON.stringify(made)).toMatchObject({ status: 201 });
    const spare = on.fleet.stores.nodes.list().find(({ metadata }) => metadata.name === 'spare') as EdgeNode;
    await create('ssh', { ...external, type: 'agent', resource: 'spare', targetPort: 22 });
    expect(service('ssh')?.spec.resource).toBe(nodeUuid(spare));
    await send('DELETE', `/node/${nodeUuid(spare)}`);
    expect(service('ssh')).toBeUndefined();
  });
});

test('a service that was made before there is a default router becomes right with it, without an edit', async () => {
  await on.fleet.cluster.client.create(on.fleet.stores.services.resource, {
    ...{ apiVersion: 'skerry.dev/v3', kind: 'Service', metadata: { name: 'early', namespace: NAMESPACE } },
    spec: { ...external, type: 'agent', resource: 'gateway-1', targetPort: 22 },
  } as never);
  await on.fleet.settle();
  expect(ready('early')).toMatchObject({ status: 'False', reason: 'RouterNone' });
  expect((await send('PUT', '/router', { host: 'router.example' })).status).toBe(200);
  await on.fleet.settle();
  expect(ready('early')).toMatchObject({ status: 'True' });
});
