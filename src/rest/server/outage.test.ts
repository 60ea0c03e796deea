import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createRest } from '../../assembly/rest.ts';
import { routes } from '../../assembly/routes.ts';
import { createStores, type Stores } from '../../datastore/stores.ts';
import { createClient, type KubeClient } from '../../kube/mod.ts';
import { createRenderer } from '../../templates/renderer.ts';
import { createTestClient, type TestClient } from '../_client.ts';
import { createClusterDependencies } from '../adapters/dependencies.ts';
import type { RestServer } from './server.ts';

/** An API server whose responses each test sets, and the REST API over it. */
let answer: (path: string, method: string) => { status: number; body: object } | 'hang';
let api: Server;
let kube: KubeClient;
let stores: Stores;
let server: RestServer;
let client: TestClient;

const ok = (body: object) => ({ status: 200, body });
const failed = (status: number, reason: string) => ({
  status,
  body: { kind: 'Status', reason, message: 'etcd at 10.0.0.7 is on fire' },
});
const healthy: typeof answer = (path) => {
  if (path.includes('tokenreviews'))
    return ok({ status: { authenticated: true, audiences: ['skerry'], user: { username: 'ann', groups: [] } } });
  if (path.includes('subjectaccessreviews')) return ok({ status: { allowed: true } });
  return ok({});
};

beforeAll(async () => {
  api = createServer((request, response) => {
    request.resume().on('end', () => {
      const reply = answer(request.url ?? '', request.method ?? '');
      if (reply === 'hang') return;
      response.writeHead(reply.status, { 'content-type': 'application/json' }).end(JSON.stringify(reply.body));
    });
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
  const config = () => {
    const kubeConfig = new KubeConfig();
    const { port } = api.address() as AddressInfo;
    kubeConfig.loadFromClusterAndUser(
      { name: 'c', server: `http://127.0.0.1:${port}`, skipTLSVerify: true },
      { name: 'u' },
    );
    return kubeConfig;
  };
  kube = createClient({ config });
});
afterAll(async () => {
  await kube[Symbol.asyncDispose]();
  api.closeAllConnections();
  api.close();
});

beforeEach(async () => {
  answer = healthy;
  stores = createStores({ namespace: 'ns' });
  const deps = createClusterDependencies({
    templates: createRenderer(),
    client: kube,
    namespace: 'ns',
    stores,
    ids: { next: async () => 10 },
    provisioning: () => undefined,
    observations: { of: async () => new Map(), listeningSince: () => 0 },
    self: { version: '0', caCert: () => '', controlPlane: 'kubernetes' },
  });
  server = createRest({ deps, limits: { requestMs: 4_000 } });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  client = createTestClient(`http://127.0.0.1:${port}`, routes, 'token');
  return async () => server[Symbol.asyncDispose]();
});

const synced = () => {
  for (const store of Object.values(stores)) store.swap([], '1');
};

describe('readiness', () => {
  test('is 503 with the documented body until every store is complete', async () => {
    const { status, body, headers } = await client.get('/status');
    expect([status, headers.get('retry-after')]).toEqual([503, '5']);
    expect(body).toMatchObject({
      status: 'not ready',
      uptimeSec: expect.any(Number),
      error: 'ServiceUnavailable',
      code: 'CONTROLLER_NOT_READY',
      retryable: true,
    });
    expect((await client.get('/live')).status).toBe(200);
    synced();
    expect((await client.get('/status')).status).toBe(200);
  });

  test('is 503 while the API server does not respond', async () => {
    synced();
    answer = () => failed(503, 'ServiceUnavailable');
    expect(await client.get('/status')).toMatchObject({ status: 503, body: { code: 'CONTROLLER_DB_UNAVAILABLE' } });
    expect((await client.get('/live')).status).toBe(200);
  });

  test('sends at most one request a second to the API server', async () => {
    synced();
    let questions = 0;
    answer = (path, method) => {
      if (path === '/version') questions++;
      return healthy(path, method);
    };
    for (let i = 0; i < 20; i++) await client.get('/status');
    expect(questions).toBe(1);
  });
});

describe('with an API server that', () => {
  beforeEach(synced);

  test.each<[string, typeof answer]>([
    ['responds 500 to reviews', () => failed(500, 'InternalError')],
    ['refuses reviews of the controller', () => failed(403, 'Forbidden')],
    ['does not respond', () => 'hang'],
  ])('%s, every request that needs a token gets 503', async (_, reply) => {
    answer = reply;
    const { status, body, headers } = await client.get('/node-list');
    expect([status, headers.has('retry-after')]).toEqual([503, true]);
    expect(JSON.stringify(body)).not.toContain('etcd');
  });

  test('fails after authentication, a request gets 503 without the cause', async () => {
    answer = (path, method) => (path.includes('edgenodes') ? failed(500, 'InternalError') : healthy(path, method));
    const { status, body } = await client.get('/node/00000000-0000-4000-8000-000000000000');
    expect(status).toBe(503);
    expect(JSON.stringify(body)).not.toContain('etcd');
  });

  test('refuses the permissions of the controller, a request gets 500, not 403', async () => {
    answer = (path, method) => (path.includes('edgenodes') ? failed(403, 'Forbidden') : healthy(path, method));
    const { status, body } = await client.get('/node/00000000-0000-4000-8000-000000000000');
    expect([status, body.code]).toEqual([500, 'INTERNAL_ERROR']);
    expect(JSON.stringify(body)).not.toContain('etcd');
  });

  test('fails, lists are still served from the stores to callers with a cached review', async () => {
    expect((await client.get('/node-list')).status).toBe(200);
    answer = () => failed(500, 'InternalError');
    expect((await client.get('/node-list')).status).toBe(200);
  });
});

test('a controller with incomplete stores serves no list', async () => {
  expect((await client.get('/node-list')).status).toBe(503);
  expect((await client.get('/application')).status).toBe(503);
});
