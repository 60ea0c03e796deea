import { beforeEach, describe, expect, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import type { Application } from '../../../api/v3/index.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

/** The routes for microservices of the system; what they have in common with those of users is tested there. */
const NAMESPACE = 'test';
let count = 0;
let uuid: string;

const deps = createMemoryDependencies();
const client = await serveInMemory({ deps });
const admin = client.as('admin');
const developer = client.as('developer');
await admin.post('/node', { json: { name: 'gw', archId: 1 } });

/** Stores the application of the system of a test, with a router on the node. */
function store(node: string, annotations: Record<string, string> = {}) {
  count++;
  uuid = `00000000-0000-4000-8000-${String(count).padStart(12, '0')}`;
  deps.stores.applications.set({
    apiVersion: API_VERSION,
    kind: 'Application',
    metadata: {
      ...{ name: `system-${count}`, namespace: NAMESPACE, annotations },
      ...{ uid: `uid-${count}`, resourceVersion: `${count}` },
    },
    spec: {
      isActivated: true,
      isSystem: true,
      microservices: [{ name: 'router', uuid, agent: { name: node }, images: { amd64: 'r:1' } }],
    },
  } as Application);
}
beforeEach(() => store('gw'));
const read = async () => (await admin.get(`/microservices/system/${uuid}`)).body;

describe('a microservice of the system', () => {
  test('is changed over its own route, and over that of users gets 400', async () => {
    const images = [{ containerImage: 'r:2', archId: 1 }];
    expect((await admin.patch(`/microservices/system/${uuid}`, { json: { images } })).status).toBe(204);
    expect((await read()).images).toEqual(images);
    expect((await admin.patch(`/microservices/${uuid}`, { json: { images } })).status).toBe(400);
  });

  test('is changed from a file that names it', async () => {
    const file = (name: string) => ({
      form: {
        part: 'microservice',
        text: `kind: Microservice\nmetadata: {name: ${name}}\nspec: {agent: {name: gw}, images: {amd64: "r:3"}, config: {a: 1}}\n`,
      },
    });
    expect((await admin.patch(`/microservices/system/yaml/${uuid}`, file('router'))).status).toBe(204);
    expect(await read()).toMatchObject({ images: [{ containerImage: 'r:3', archId: 1 }], config: '{"a":1}' });
    expect((await admin.patch(`/microservices/system/yaml/${uuid}`, file('other'))).status).toBe(400);
  });

  test('has a config that is set, read and removed over its own route alone', async () => {
    expect((await admin.patch(`/microservices/system/${uuid}/config`, { json: { rate: 5 } })).status).toBe(204);
    expect((await admin.get(`/microservices/system/${uuid}/config`)).body).toBe('{"rate":5}');
    expect(await admin.get(`/microservices/${uuid}/config`)).toMatchObject({
      status: 400,
      body: { message: `router belongs to the system; its config is at /microservices/system/${uuid}/config` },
    });
    expect((await admin.delete(`/microservices/system/${uuid}/config`)).status).toBe(204);
    expect((await admin.get(`/microservices/system/${uuid}/config`)).body).toBe('{}');
  });

  test('has ports that are added and removed', async () => {
    const port = { internal: 80, external: 8100 + count };
    const added = await admin.post(`/microservices/system/${uuid}/port-mapping`, { json: port });
    expect([added.status, added.body]).toEqual([201, { ...port, protocol: 'tcp' }]);
    expect((await read()).ports).toEqual([{ ...port, protocol: 'tcp' }]);
    expect((await admin.delete(`/microservices/system/${uuid}/port-mapping/80`)).status).toBe(204);
    expect((await read()).ports).toEqual([]);
    expect((await admin.delete(`/microservices/system/${uuid}/port-mapping/80`)).status).toBe(404);
  });

  test('has volumes that are added and removed, and none that it shares', async () => {
    const volume = { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' };
    const added = await admin.post(`/microservices/system/${uuid}/volume-mapping`, { json: volume });
    expect(added.status).toBe(201);
    expect((await read()).volumeMappings).toEqual([{ ...volume, scope: 'private', id: added.body.id }]);
    const removed = await admin.delete(`/microservices/system/${uuid}/volume-mapping/${added.body.id}`);
    expect(removed.status).toBe(204);
    expect((await read()).volumeMappings).toEqual([]);
    const shared = { ...volume, scope: 'shared' };
    expect((await admin.post(`/microservices/system/${uuid}/volume-mapping`, { json: shared })).status).toBe(400);
  });

  test('is read by a developer and changed only by who may change the system', async () => {
    expect((await developer.get(`/microservices/system/${uuid}`)).status).toBe(200);
    expect((await developer.patch(`/microservices/system/${uuid}`, { json: {} })).status).toBe(403);
    expect((await developer.delete(`/microservices/system/${uuid}/config`)).status).toBe(403);
  });

  test.each(['/microservices', '/microservices/system'])(
    'a list of %s with a parameter that it does not have gets 400 instead of all of them',
    async (path) => {
      expect((await admin.get(`${path}?flowId=3`)).body).toMatchObject({ message: expect.stringContaining('flowId') });
      expect((await admin.get(`${path}?flowId=3`)).status).toBe(400);
    },
  );
});

describe('a microservice of the platform of a node', () => {
  const path = () => `/application/system/system-${count}`;
  const onNode = (node: string) => store(node, { [ANNOTATIONS.platform]: '["router"]' });

  test('keeps its application until its node is deleted', async () => {
    const { uuid: node } = (await admin.post('/node', { json: { name: 'leaving', archId: 1 } })).body;
    onNode('leaving');
    expect(await admin.delete(path())).toMatchObject({
      status: 400,
      body: {
        code: 'SYSTEM_APPLICATION_DELETE',
        message: `system-${count} has the system's microservice "router", which belongs to the platform of its node: set routerMode of the node to none, or delete the node`,
      },
    });
    expect((await admin.delete(`/node/${node}`)).status).toBe(202);
    expect((await admin.delete(path())).status).toBe(204);
  });

  test('is refused a change with the setting to change instead, in the words of the request', async () => {
    onNode('gw');
    const at = `/microservices/system/${uuid}`;
    expect((await admin.patch(at, { json: { memoryLimit: 64, rebuild: true } })).status).toBe(204);
    const answer = await admin.post(`${at}/port-mapping`, { json: { internal: 80, external: 8_000 + count } });
    expect(answer).toMatchObject({
      status: 400,
      body: {
        code: 'SYSTEM_MICROSERVICE_UPDATE',
        message: `ports of the system's microservice "router" belongs to the platform of its node: change messagingPort, interRouterPort or edgeRouterPort of the node`,
      },
    });
    expect(await read()).toMatchObject({ memoryLimit: 64, ports: [] });
  });
});
