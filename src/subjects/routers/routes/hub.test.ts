import { describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { routerHubKind } from '../kinds/router-hub.ts';

const PATH = '/router';
const DEFAULTS = { messagingPort: 5671, edgeRouterPort: 45671, interRouterPort: 55671 };

async function serve(controlPlane?: 'remote') {
  const deps = createMemoryDependencies();
  if (controlPlane) Object.assign(deps.self, { controlPlane });
  const server = await serveInMemory({ deps });
  const admin = server.as('admin');
  return { deps, admin, put: (json: object) => admin.put(PATH, { json }) };
}

test('GET /router is 404 until PUT /router names a default router, and then shows it with its defaults', async () => {
  const { admin, put } = await serve();
  expect(await admin.get(PATH)).toMatchObject({ status: 404, body: { code: 'ROUTER_HUB_NOT_FOUND' } });
  const router = { host: 'router.example', ...DEFAULTS };
  expect(await put({ host: 'router.example' })).toMatchObject({ status: 200, body: router });
  expect(await admin.get(PATH)).toMatchObject({ status: 200, body: router });
});

test('a second PUT /router replaces what v3 knows of it, and keeps what kubectl alone can set', async () => {
  const { deps, put } = await serve();
  await put({ host: 'a.example', edgeRouterPort: 7000 });
  const [made] = deps.routerHubs.list();
  if (!made) throw new Error('no default router');
  await deps.routerHubs.replace({ ...made, spec: { ...made.spec, isExternal: true } }, AbortSignal.timeout(5_000));
  const changed = await put({ host: 'b.example', interRouterPort: 9090 });
  expect(changed).toMatchObject({ status: 200, body: { ...DEFAULTS, host: 'b.example', interRouterPort: 9090 } });
  expect(deps.routerHubs.list().map(({ spec }) => spec)).toEqual([
    { host: 'b.example', interRouterPort: 9090, isExternal: true },
  ]);
});

test('a PUT is judged as it is about to be stored, after a conflict too', async () => {
  const { deps, put } = await serve();
  await put({ host: 'a.example' });
  const store = async (spec: object) => {
    const [now] = deps.routerHubs.list();
    if (!now) throw new Error('no default router');
    await replace({ ...now, spec: { ...now.spec, ...spec } }, AbortSignal.timeout(5_000));
  };
  const replace = deps.routerHubs.replace.bind(deps.routerHubs);
  await store({ isExternal: true });
  deps.routerHubs.replace = async (object, signal) => {
    deps.routerHubs.replace = replace;
    await store({ isExternal: false });
    return replace(object, signal);
  };
  // The port of probes is free where the router is elsewhere alone.
  expect(await put({ host: 'b.example', edgeRouterPort: 9090 })).toMatchObject({ status: 400 });
  expect(deps.routerHubs.list()).toMatchObject([{ spec: { host: 'a.example' } }]);
});

describe('PUT /router refuses', () => {
  test.each([
    ['no host', {}, 'host'],
    ['a URL as host', { host: 'amqps://router.example' }, 'host'],
    ['a port beyond 65535', { host: 'a', messagingPort: 70_000 }, 'messagingPort'],
    ['a port in text', { host: 'a', edgeRouterPort: '45671' }, 'edgeRouterPort'],
    ['two ports that are the same', { host: 'a', interRouterPort: 45671 }, 'interRouterPort'],
    ['the port of probes', { host: 'a', edgeRouterPort: 9090 }, 'edgeRouterPort'],
  ])('%s with the field', async (_, body, field) => {
    const { admin, put } = await serve();
    const refused = await put(body);
    expect(refused).toMatchObject({ status: 400, body: { code: 'VALIDATION_ERROR' } });
    expect(JSON.stringify(refused.body)).toContain(field);
    expect((await admin.get(PATH)).status).toBe(404);
  });
});

describe('on the control plane remote', () => {
  test('GET /router shows the oldest node of the system, and PUT /router is 400 INVALID_ROUTER', async () => {
    const { admin, put } = await serve('remote');
    expect(await admin.get(PATH)).toMatchObject({ status: 404, body: { code: 'ROUTER_HUB_NOT_FOUND' } });
    const node = { archId: 1, isSystem: true, edgeRouterPort: 7001, interRouterPort: 7002 };
    await admin.post('/node', { json: { ...node, name: 'first', host: 'a.example' } });
    await admin.post('/node', { json: { ...node, name: 'second', host: 'b.example' } });
    const router = { host: 'a.example', messagingPort: 5671, edgeRouterPort: 7001, interRouterPort: 7002 };
    expect(await admin.get(PATH)).toMatchObject({ status: 200, body: router });
    expect(await put({ host: 'c.example' })).toMatchObject({ status: 400, body: { code: 'INVALID_ROUTER' } });
  });
});

test('a default router that kubectl gave two equal ports has a verdict with the words of REST', () => {
  const metadata = { name: 'default-router', namespace: 'skerry' };
  const hub = { apiVersion: 'skerry.dev/v3', kind: 'RouterHub', metadata, spec: { edgeRouterPort: 5671 } };
  expect(routerHubKind.verdict?.(hub, () => undefined)).toMatchObject({
    reason: 'RouterHubInvalid',
    message: 'edgeRouterPort: 5671 is the port of messagingPort as well',
  });
});
