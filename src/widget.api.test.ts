import { afterAll, expect, inject, test } from 'vitest';
import type {} from '../hack/testing/provided.ts';
import { testConfig } from '../testing/test-config.ts';
import { WITH_WIDGETS, type Widget, widgetKind } from '../testing/widget.ts';
import { toCrd } from './api/crd.ts';
import { API_VERSION, LABELS } from './api/names.ts';
import type { KubeObject, Resource } from './kube/mod.ts';
import { startTestCluster } from './rest/_cluster.ts';
import { RESOURCES } from './subjects/kinds.ts';
import { supportDocument } from './support.ts';

/** A kind of which only the definition exists, on a real API server with a whole controller. */
const CRDS: Resource = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};
const kinds = WITH_WIDGETS;
const crd = toCrd(widgetKind.definition) as unknown as KubeObject;

const cluster = await startTestCluster({ kinds });
const { app, client } = await cluster.startController();
const admin = client.as(await cluster.token('admin'));
const viewer = client.as(await cluster.token('viewer'));
afterAll(() => cluster.kube.delete(CRDS, { name: crd.metadata.name }));

const find = (name: string) => cluster.kube.find<Widget>(widgetKind.resource, { namespace: cluster.namespace, name });

test('requests about a kind without a CRD get 503, and requests about nodes are served', async () => {
  await expect.poll(async () => (await admin.get('/node-list')).status, { timeout: 30_000 }).toBe(200);
  expect((await admin.get('/widgets')).status).toBe(503);
  // A new controller is ready before the CRDs of its new kinds exist.
  expect((await admin.get('/status')).status).toBe(200);
  expect((await fetch(`http://127.0.0.1:${app.addresses.metrics}/readyz`)).status).toBe(200);
  await cluster.kube.create(CRDS, crd);
  await expect.poll(async () => (await admin.get('/widgets')).status, { timeout: 60_000, interval: 500 }).toBe(200);
});

test('objects are created with a number, listed, read, changed and deleted', async () => {
  const { status, body } = await admin.post('/widgets', { json: { name: 'b', colour: 'red' } });
  expect([status, body]).toEqual([201, { id: expect.any(Number), name: 'b', colour: 'red' }]);
  expect((await admin.post('/widgets', { json: { name: 'a' } })).body.id).toBe(body.id + 1);
  expect((await admin.get('/widgets')).body.widgets.map(({ name }: { name: string }) => name)).toEqual(['a', 'b']);
  expect((await admin.patch('/widgets/b', { json: { colour: 'blue' } })).body).toEqual({ ...body, colour: 'blue' });
  expect((await admin.get('/widgets/b')).body).toEqual({ ...body, colour: 'blue' });
  expect((await admin.delete('/widgets/b')).status).toBe(202);
  expect((await admin.get('/widgets/b')).status).toBe(404);
});

test('a file creates an object and replaces it', async () => {
  const yaml = 'kind: Widget\nmetadata: {name: filed}\nspec: {colour: green}\n';
  expect(await admin.post('/widgets/yaml', { yaml })).toMatchObject({ status: 201, body: { colour: 'green' } });
  const { status, body } = await admin.put('/widgets/yaml/filed', { yaml: yaml.replace('{colour: green}', '{}') });
  expect([status, body]).toEqual([200, { id: expect.any(Number), name: 'filed' }]);
});

test('a name that is taken gets 409, and a write by a viewer gets 403', async () => {
  await admin.post('/widgets', { json: { name: 'once' } });
  const again = await admin.post('/widgets', { json: { name: 'once' } });
  expect(again).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
  expect((await viewer.get('/widgets/once')).status).toBe(200);
  expect((await viewer.delete('/widgets/once')).status).toBe(403);
});

test('an object that kubectl creates gets its number and becomes Ready', async () => {
  const metadata = { name: 'kubectl', namespace: cluster.namespace };
  await cluster.kube.create(widgetKind.resource, { apiVersion: API_VERSION, kind: 'Widget', metadata, spec: {} });
  await expect
    .poll(async () => (await find('kubectl'))?.status, { timeout: 60_000 })
    .toMatchObject({
      id: expect.any(Number),
      conditions: expect.arrayContaining([expect.objectContaining({ type: 'Ready', status: 'True' })]),
    });
  expect((await admin.get('/widgets/kubectl')).body.id).toBe((await find('kubectl'))?.status?.id);
});

test('the deletion of a registry that an object refers to is refused', async () => {
  const registryId = (await admin.post('/registries', { json: { url: 'r.example' } })).body.id;
  await admin.post('/widgets', { json: { name: 'user', registryId } });
  const refused = await admin.delete(`/registries/${registryId}`);
  expect(refused).toMatchObject({ status: 400, body: { code: 'REGISTRY_IS_IN_USE' } });
  const ref = { namespace: cluster.namespace, name: `registry-${registryId}` };
  await expect
    .poll(async () => (await cluster.kube.get(RESOURCES.registries, ref)).metadata.labels, { timeout: 60_000 })
    .toMatchObject({ [LABELS.inUse]: 'true' });
  expect((await admin.post('/widgets', { json: { name: 'lost', registryId: 4711 } })).status).toBe(404);
});

test('the support document and the metrics have the kind', async () => {
  const config = { ...testConfig(inject('kubeconfig'), cluster.namespace), metricsPort: app.addresses.metrics ?? 0 };
  const bundle = (await supportDocument(config, cluster.kube, kinds)) as { widgets: Widget[]; metrics: string };
  expect(bundle.widgets.map(({ metadata }) => metadata.name)).toContain('kubectl');
  expect(bundle.metrics).toContain(`skerry_objects{kind="Widget"} ${bundle.widgets.length}\n`);
});
