import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { ANNOTATIONS, API_VERSION } from '../../api/names.ts';
import type { Application, CatalogItem } from '../../api/v3/index.ts';
import { builtInItems } from '../../domain/index.ts';
import { createTestClient, type TestClient } from '../_client.ts';
import { createMemoryDependencies, type MemoryDependencies } from '../_memory.ts';
import { createRestServer, type RestServer } from '../server.ts';
import { routes } from './index.ts';

/** The routes of debug shells; when a shell goes by itself is tested in src/controllers/debug-shell.test.ts. */
let deps: MemoryDependencies;
let server: RestServer;
let sre: TestClient;
let now = Date.parse('2026-01-01T00:00:00Z');
let count = 0;
let uuid: string;

beforeAll(async () => {
  deps = createMemoryDependencies({ clock: () => now });
  server = createRestServer({ deps });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  sre = createTestClient(`http://127.0.0.1:${port}`, routes).as('sre');
  for (const { name, spec } of builtInItems())
    deps.stores.catalogItems.set({
      apiVersion: API_VERSION,
      kind: 'CatalogItem',
      metadata: { name, namespace: 'test', uid: name, resourceVersion: '1' },
      spec,
    } as CatalogItem);
  deps.stores.registries.set({
    apiVersion: API_VERSION,
    kind: 'Registry',
    metadata: { name: 'remote', namespace: 'test', uid: 'remote', resourceVersion: '1' },
    spec: { id: 1, url: 'registry.hub.docker.com', isPublic: true, type: 'oci' },
    status: { id: 1 },
  } as never);
});
afterAll(() => server?.[Symbol.asyncDispose]());

beforeEach(async () => {
  count++;
  uuid = (await sre.post('/node', { json: { name: `gw-${count}`, archId: 1 } })).body.uuid;
});
const later = (object: CatalogItem): CatalogItem => ({
  ...object,
  metadata: { ...object.metadata, resourceVersion: `${Number(object.metadata.resourceVersion) + 1000}` },
});
const stored = () => deps.stores.applications.get('test', `system-gw-${count}`);
const ask = (json?: object) => sre.post(`/node/${uuid}/exec`, json && { json });

test('POST adds the microservice debug to the application of the system, which a read shows', async () => {
  expect((await ask()).status).toBe(204);
  const { body } = await sre.get(`/microservices/system?application=system-gw-${count}`);
  expect(body.microservices).toMatchObject([{ name: 'debug', nodeUuid: uuid, isPrivileged: true, pidMode: 'host' }]);
  expect((await sre.get(`/application/system-gw-${count}`)).status).toBe(404);
});

test('POST again makes the time longer and changes nothing else', async () => {
  await ask();
  const before = stored();
  now += 10 * 60_000;
  expect((await ask()).status).toBe(204);
  expect(stored()?.spec).toEqual(before?.spec);
  expect(stored()?.metadata.annotations?.[ANNOTATIONS.debugUntil]).toBe(new Date(now + 60 * 60_000).toISOString());
});

test('two POSTs at once make one shell', async () => {
  const both = await Promise.all([ask(), ask()]);
  expect(both.map(({ status }) => status)).toEqual([204, 204]);
  expect(stored()?.spec.microservices).toHaveLength(1);
});

test('POST takes an image of its own, and refuses a text that is none', async () => {
  expect((await ask({ image: 'reg.example/tools:1' })).status).toBe(204);
  const { body } = await sre.get(`/microservices/system?application=system-gw-${count}`);
  expect(body.microservices[0].images).toContainEqual({ containerImage: 'reg.example/tools:1', archId: 1 });
  expect(await ask({ image: 'no image' })).toMatchObject({
    status: 400,
    body: { message: expect.stringMatching(/^image/) },
  });
});

test('POST says that the node does not exist', async () => {
  const unknown = '00000000-0000-4000-8000-000000000000';
  expect(await sre.post(`/node/${unknown}/exec`)).toMatchObject({
    status: 404,
    body: { message: `there is no node with the uuid ${unknown}` },
  });
  expect((await sre.delete(`/node/${unknown}/exec`)).status).toBe(404);
});

test('POST says what is missing where the catalog has no image for the architecture of the node', async () => {
  const item = deps.stores.catalogItems.get('test', 'debug') as CatalogItem;
  const images = item.spec.images?.filter(({ archId }) => archId !== 1);
  deps.stores.catalogItems.set({ ...later(item), spec: { ...item.spec, images } } as CatalogItem);
  expect(await ask()).toMatchObject({
    status: 400,
    body: {
      message: `microservice debug: the catalog item "debug" has no image for amd64, the architecture of the node "gw-${count}"; it has arm64, riscv64, arm`,
    },
  });
  deps.stores.catalogItems.set(later(later(item)));
});

test('POST is a conflict with an application of users that has the name, and DELETE leaves it', async () => {
  const application = { name: `system-gw-${count}`, microservices: [] };
  expect((await sre.post('/application', { json: application })).status).toBe(201);
  expect((await ask()).status).toBe(409);
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()).toBeDefined();
});

test('DELETE removes the shell and leaves the other microservices of the application', async () => {
  await ask();
  const application = stored() as Application;
  const router = { name: 'router', agent: { uuid }, images: { amd64: 'r:1' } };
  const microservices = [...(application.spec.microservices ?? []), router];
  const spec = { ...application.spec, microservices };
  await deps.applications.replace({ ...application, spec }, AbortSignal.timeout(5_000));
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()?.spec.microservices).toMatchObject([{ name: 'router' }]);
});

test('DELETE removes an application that was made for the shell', async () => {
  await ask();
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  expect(stored()).toBeUndefined();
});
