import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestClient, type TestClient } from '../_client.ts';
import { createMemoryDependencies } from '../_memory.ts';
import { createRestServer, type RestServer } from '../server.ts';
import { routes } from './index.ts';

let server: RestServer;
let viewer: TestClient;
beforeAll(async () => {
  server = createRestServer({ deps: createMemoryDependencies() });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  viewer = createTestClient(`http://127.0.0.1:${port}`, routes, 'viewer');
});
afterAll(() => server[Symbol.asyncDispose]());

test('application templates are there: HEAD responds 204', async () => {
  expect((await viewer.request('HEAD', '/capabilities/applicationTemplates')).status).toBe(204);
});

test('there is no bus yet: HEAD responds 404 under both spellings', async () => {
  expect((await viewer.request('HEAD', '/capabilities/bus')).status).toBe(404);
  expect((await viewer.request('HEAD', '/capabilities/nats')).status).toBe(404);
});
