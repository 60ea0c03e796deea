import { afterAll, describe, expect, test } from 'vitest';
import { controllerDependencies } from '../testing/controller-dependencies.ts';
import { createInMemoryApiServer } from '../testing/in-memory-api-server.ts';
import { manifest } from '../testing/manifest.ts';
import { testConfig } from '../testing/test-config.ts';
import { WITH_WIDGETS, type Widget, widgetKind } from '../testing/widget.ts';
import { toCrd } from './api/crd.ts';
import { LABELS } from './api/names.ts';
import { createRest } from './assembly/rest.ts';
import { createRoutes } from './assembly/routes.ts';
import { createKindController } from './controllers/kind.ts';
import { createIds } from './datastore/ids.ts';
import { countObjects, createIdLookup, createStores, storeOf } from './datastore/stores.ts';
import { createTestClient } from './rest/_client.ts';
import { tokensOfRoles } from './rest/_rules.ts';
import { roles } from './rest/access/roles.ts';
import { createClusterDependencies } from './rest/adapters/dependencies.ts';
import { openApiDocument } from './rest/server/openapi.ts';
import { createRegistryController } from './subjects/catalog/reconcile/registry.ts';
import { KINDS } from './subjects/kinds.ts';
import { supportDocument } from './support.ts';
import { createRenderer } from './templates/renderer.ts';

/** What a kind has that is nothing but a definition, with an API server in memory. */
const namespace = 'plant';
const kinds = WITH_WIDGETS;
const stores = createStores({ namespace, kinds });
const { client } = createInMemoryApiServer(stores);
const widgets = storeOf<Widget>(stores, widgetKind);
const routes = createRoutes(kinds);
const stop = new AbortController();

for (const store of Object.values(stores)) if (store !== (widgets as never)) store.swap([], '1');
const ids = createIds({ client, namespace, withId: createIdLookup(stores, kinds) });
const deps = createClusterDependencies({
  templates: createRenderer(),
  client,
  namespace,
  stores,
  kinds,
  ids,
  observations: { of: async () => new Map(), listeningSince: () => 0 },
  self: { version: '0.0.0', caCert: () => '', controlPlane: 'kubernetes' },
  provisioning: () => undefined,
  ...tokensOfRoles(kinds),
});
const server = createRest({ deps });
const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
const rest = createTestClient(`http://127.0.0.1:${port}`, routes);
const admin = rest.as('admin');
const viewer = rest.as('viewer');
const controllers = controllerDependencies(client, namespace, stores, kinds);
const loops = [createKindController(controllers, widgetKind), createRegistryController(controllers)];
const running = Promise.all(loops.map((loop) => loop.run(stop.signal)));
afterAll(async () => {
  stop.abort();
  await running;
  await server[Symbol.asyncDispose]();
});

const labelsOf = (name: string) => stores.registries.get(namespace, name)?.metadata.labels ?? {};
const readyOf = (name: string) =>
  widgets.get(namespace, name)?.status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
const makeRegistry = async () => (await admin.post('/registries', { json: { url: 'r.example' } })).body.id as number;

test('requests about a kind wait for its store, and requests about nodes do not', async () => {
  expect(await admin.get('/widgets')).toMatchObject({ status: 503, body: { code: 'SERVICE_UNAVAILABLE' } });
  expect((await admin.get('/node-list')).status).toBe(200);
  widgets.swap([], '1');
  expect(await admin.get('/widgets')).toMatchObject({ status: 200, body: { widgets: [] } });
});

describe('a kind that is only a definition', () => {
  test('is created with a number of a separate block, listed, read, changed and deleted', async () => {
    const created = await admin.post('/widgets', { json: { name: 'b', colour: 'red', unknown: 1 } });
    expect(created).toMatchObject({ status: 201, body: { id: 10, name: 'b', colour: 'red' } });
    expect((await admin.post('/widgets', { json: { name: 'a' } })).body.id).toBe(11);
    expect((await admin.get('/widgets')).body.widgets.map(({ name }: Widget['spec']) => name)).toEqual(['a', 'b']);
    expect(await admin.patch('/widgets/b', { json: { colour: null } })).toMatchObject({ status: 200 });
    expect((await admin.get('/widgets/b')).body).toEqual({ id: 10, name: 'b' });
    expect(await admin.delete('/widgets/b')).toMatchObject({ status: 202, body: {} });
    expect(await admin.get('/widgets/b')).toMatchObject({ status: 404, body: { code: 'WIDGET_NOT_FOUND' } });
  });

  test('is created and replaced from a file', async () => {
    const yaml = (name: string, colour: string) =>
      `kind: Widget\nmetadata: {name: ${name}}\nspec: {colour: ${colour}}\n`;
    const { status, body } = await admin.post('/widgets/yaml', { form: { part: 'widget', text: yaml('y', 'green') } });
    expect([status, body.colour]).toEqual([201, 'green']);
    expect((await admin.put('/widgets/yaml/y', { yaml: yaml('y', 'blue') })).body).toEqual({ ...body, colour: 'blue' });
    expect((await admin.put('/widgets/yaml/y', { yaml: yaml('z', 'blue') })).status).toBe(400);
    expect((await admin.post('/widgets/yaml', { yaml: 'kind: Gadget\nmetadata: {name: x}\nspec: {}\n' })).status).toBe(
      400,
    );
  });

  test('has one object per name, and its name does not change', async () => {
    await admin.post('/widgets', { json: { name: 'once' } });
    expect(await admin.post('/widgets', { json: { name: 'once' } })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME', message: 'widget name "once" is already used' },
    });
    expect((await admin.patch('/widgets/once', { json: { name: 'twice' } })).status).toBe(400);
  });

  test('becomes Ready, also when it was not created over REST', async () => {
    await client.create(widgetKind.resource, manifest('Widget', { name: 'kubectl', namespace }, {}));
    await expect.poll(() => readyOf('kubectl')).toBe('Usable');
    const { metadata, status } = widgets.get(namespace, 'kubectl') as Widget;
    expect(metadata.labels?.[LABELS.id]).toBe(String(status?.id));
  });

  test('prevents the deletion of an object that it refers to, and cannot refer to an object that does not exist', async () => {
    const registryId = await makeRegistry();
    await admin.post('/widgets', { json: { name: 'user', registryId } });
    await expect.poll(() => labelsOf(`registry-${registryId}`)[LABELS.inUse]).toBe('true');
    expect(await admin.delete(`/registries/${registryId}`)).toMatchObject({
      status: 400,
      body: { code: 'REGISTRY_IS_IN_USE', message: expect.stringContaining('widget user') },
    });
    expect(await admin.post('/widgets', { json: { name: 'lost', registryId: 4711 } })).toMatchObject({
      status: 404,
      body: { code: 'REGISTRY_NOT_FOUND' },
    });
    await admin.delete('/widgets/user');
    await expect.poll(() => labelsOf(`registry-${registryId}`)[LABELS.inUse]).toBeUndefined();
    expect((await admin.delete(`/registries/${registryId}`)).status).toBe(204);
  });

  test('follows the rules of its row of the roles', async () => {
    expect((await viewer.get('/widgets')).status).toBe(200);
    expect((await viewer.post('/widgets', { json: { name: 'no' } })).status).toBe(403);
    const named = roles({ namespace, kinds }).flatMap(({ rules = [] }) => rules.flatMap(({ resources }) => resources));
    expect(named).toContain('widgets');
    expect(KINDS).not.toHaveProperty('widgets');
  });

  test('has a CRD, operations in the OpenAPI document, a part of the support document and a count', async () => {
    // No tool that once had the definition removes it, and all objects of the kind with it.
    const annotations = {
      'argocd.argoproj.io/sync-options': 'Prune=false,Delete=false',
      'helm.sh/resource-policy': 'keep',
      'kustomize.toolkit.fluxcd.io/prune': 'disabled',
    };
    expect(toCrd(widgetKind.definition)).toMatchObject({ metadata: { name: 'widgets.skerry.dev', annotations } });
    const { paths } = openApiDocument(routes) as { paths: Record<string, object> };
    expect(Object.keys(paths).filter((path) => path.includes('widgets'))).toEqual([
      '/api/v3/widgets',
      '/api/v3/widgets/{name}',
      '/api/v3/widgets/yaml',
      '/api/v3/widgets/yaml/{name}',
    ]);
    const bundle = await supportDocument({ ...testConfig('', namespace), metricsPort: 1 }, client, kinds);
    expect(bundle).toMatchObject({ widgets: expect.arrayContaining([expect.objectContaining({ kind: 'Widget' })]) });
    expect(countObjects(stores, kinds).get('Widget')).toBe(widgets.size);
  });
});
