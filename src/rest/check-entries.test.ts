import { beforeAll, expect, test } from 'vitest';
import type { TestClient } from './_client.ts';
import { serveInMemory } from './_server.ts';

let admin: TestClient;
beforeAll(async () => {
  const { client, stop } = await serveInMemory();
  admin = client.as('admin');
  return stop;
});

test('a microservice that cannot run as asked can be stopped, and neither started nor changed', async () => {
  const { body: node } = await admin.post('/node', { json: { name: 'gw-1' } });
  const entry = { name: 'web', nodeUuid: node.uuid, images: [{ containerImage: 'team/web:1', archId: 1 }] };
  await admin.post('/application', { json: { name: 'plant', microservices: [entry] } });
  const { body } = await admin.get('/microservices?application=plant');
  const path = `/microservices/${body.microservices[0].uuid}`;
  await admin.delete(`/node/${node.uuid}`);

  expect(await admin.patch(path, { json: { schedule: 10 } })).toMatchObject({ status: 404 });
  expect(await admin.patch(`${path}/stop`)).toMatchObject({ status: 204 });
  expect((await admin.get(path)).body).toMatchObject({ isActivated: false });
  expect(await admin.patch(`${path}/start`)).toMatchObject({ status: 404, body: { code: 'INVALID_NODE_UUID' } });
  expect(await admin.patch(path, { json: { isActivated: false, schedule: 10 } })).toMatchObject({ status: 404 });
});

test.each([
  ['JSON', { json: { name: 'shop', microservices: [{ name: 'w', images: [{ containerImage: 'w:1', archId: 1 }] }] } }],
  [
    'a file',
    { yaml: 'kind: Application\nmetadata: {name: shop}\nspec: {microservices: [{name: w, images: {amd64: "w:1"}}]}\n' },
  ],
] as const)('a microservice in %s without a node is refused in the words of that form', async (form, body) => {
  const path = form === 'JSON' ? '/application' : '/application/yaml';
  const words = form === 'JSON' ? 'agentName or nodeUuid' : 'agent.name or agent.uuid';
  expect(await admin.post(path, body)).toMatchObject({
    status: 400,
    body: { code: 'NODE_NOT_SET', message: `microservice w: names no node; give ${words}` },
  });
});
