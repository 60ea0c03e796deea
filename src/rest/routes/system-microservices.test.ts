import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestClient, type TestClient } from '../_client.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { createRestServer, type RestServer } from '../server.ts';
import { routes } from './index.ts';

/** A microservice of a system application, which only the controller makes, and its routes. */
const uuid = '33333333-3333-4333-8333-333333333333';
let server: RestServer;
let admin: TestClient;
let developer: TestClient;
beforeAll(async () => {
  const deps = createMemoryDependencies();
  server = createRestServer({ deps });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  const client = createTestClient(`http://127.0.0.1:${port}`, routes);
  admin = client.as('admin');
  developer = client.as('developer');
  await admin.post('/node', { json: { name: 'gw' } });
  const entry = { name: 'debug', uuid, agent: { name: 'gw' }, images: { amd64: 'debug:1' } };
  const spec = { isSystem: true, microservices: [entry] };
  const metadata = { name: 'system-gw' };
  await deps.applications.create(
    { apiVersion: 'skerry.dev/v3', kind: 'Application', metadata, spec } as never,
    AbortSignal.timeout(5_000),
  );
});
afterAll(() => server[Symbol.asyncDispose]());

const read = async () => (await admin.get(`/microservices/system/${uuid}`)).body;

test('a system microservice is changed as a body and as a file', async () => {
  expect((await admin.patch(`/microservices/system/${uuid}`, { json: { schedule: 3 } })).status).toBe(204);
  expect((await read()).schedule).toBe(3);
  const yaml =
    'kind: Microservice\nmetadata: {name: debug}\nspec: {schedule: 4, agent: {name: gw}, images: {amd64: "debug:1"}}\n';
  expect((await admin.patch(`/microservices/system/yaml/${uuid}`, { yaml })).status).toBe(204);
  expect((await read()).schedule).toBe(4);
});

test('the config of a system microservice is set, read and removed', async () => {
  expect((await admin.patch(`/microservices/system/${uuid}/config`, { json: { rate: 5 } })).status).toBe(204);
  expect((await admin.get(`/microservices/system/${uuid}/config`)).body).toBe('{"rate":5}');
  expect((await admin.delete(`/microservices/system/${uuid}/config`)).status).toBe(204);
  expect((await admin.get(`/microservices/system/${uuid}/config`)).body).toBe('{}');
});

test('ports and volumes of a system microservice are added and removed', async () => {
  const port = { internal: 80, external: 8080 };
  expect((await admin.post(`/microservices/system/${uuid}/port-mapping`, { json: port })).status).toBe(201);
  expect((await admin.delete(`/microservices/system/${uuid}/port-mapping/80`)).status).toBe(204);
  const volume = { hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' };
  const { status, body } = await admin.post(`/microservices/system/${uuid}/volume-mapping`, { json: volume });
  expect(status).toBe(201);
  expect((await admin.delete(`/microservices/system/${uuid}/volume-mapping/${body.id}`)).status).toBe(204);
});

test('a developer reads a system microservice and does not change it', async () => {
  expect((await developer.get(`/microservices/system/${uuid}`)).status).toBe(200);
  expect((await developer.patch(`/microservices/system/${uuid}/config`, { json: {} })).status).toBe(403);
});
