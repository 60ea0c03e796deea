import { afterAll, describe, expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { manifest } from '../../testing/manifest.ts';
import { ANNOTATIONS, LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
import { createDesiredCache } from '../desired/desired-cache.ts';
import { desiredState } from '../desired/rules/desired.ts';
import { BUILT_INS } from '../subjects/catalog/rules/registry.ts';
import { createCoreObjectController } from '../subjects/content/reconcile/core-objects.ts';
import { createVolumeMountController } from '../subjects/content/reconcile/volume-mount.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import { REVISION_KEY, startTestCluster } from './_cluster.ts';

/** Secrets, config maps and volume mounts on a real API server, with their reconcilers and the desired state of a node. */
const _stop = new AbortController();

const cluster = await startTestCluster();
const { namespace, kube } = cluster;
for (const { name, spec } of BUILT_INS)
  await kube.create(RESOURCES.registries, manifest('Registry', { name, namespace }, spec));
const replica = await cluster.startReplica();
const admin = replica.client.as(await cluster.token('admin'));
cluster.reconcile(replica, (deps) => [
  createCoreObjectController(deps, 'secrets'),
  createCoreObjectController(deps, 'configMaps'),
  createVolumeMountController(deps),
]);
const desired = createDesiredCache({ stores: replica.stores, namespace, revisionKey: REVISION_KEY, desiredState });
const { uuid: node } = (await admin.post('/node', { json: { name: 'gw-1', archId: 1 } })).body;
afterAll(() => desired[Symbol.dispose]());

const base64 = (text: string) => Buffer.from(text).toString('base64');
const kubectl = (name: string, data: Record<string, string>) =>
  cluster.kube.create<Secret>(RESOURCES.secrets, {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name, namespace: cluster.namespace, labels: { [LABELS.shareable]: 'true' } },
    type: 'Opaque',
    data,
  });
const stored = (name: string) => cluster.kube.get<Secret>(RESOURCES.secrets, { namespace: cluster.namespace, name });
const labelsOf = async (name: string) => (await stored(name)).metadata.labels ?? {};
const application = (name: string, more: object) =>
  admin.post('/application', {
    json: {
      name,
      microservices: [
        { name: 'reader', nodeUuid: node, images: [{ containerImage: 'plant/reader:1', archId: 1 }], ...more },
      ],
    },
  });
const item = (application: string) => {
  const state = desired.state(node);
  const uuid = [...(state?.entries ?? [])].find(([, entry]) => entry.application === application)?.[0];
  return state?.microservices.find((one) => one.uuid === uuid);
};
const revision = (application: string) => {
  const view = item(application);
  return view && !('hold' in view) ? view.revision : undefined;
};

describe('secrets on a real API server', () => {
  test('any name and any key is accepted, and comes back in its spelling', async () => {
    const name = 'Passwords of plant 7 / north';
    const data = { 'conf/site.json': '{}', '..': 'up', 'ä b': 'x', [`${'k'.repeat(254)}/`]: 'long' };
    expect((await admin.post('/secrets', { json: { name, type: 'Opaque', data } })).status).toBe(201);
    const path = `/secrets/${encodeURIComponent(name)}`;
    expect((await admin.get(path)).body).toMatchObject({ name, data });
    await admin.patch(path, { json: { data: { 'a/b': 'c' } } });
    expect((await admin.get(path)).body.data).toEqual({ 'a/b': 'c' });
    expect((await admin.delete(path)).status).toBe(200);
    expect((await admin.get(path)).status).toBe(404);
  });

  test('an immutable config map and a tls secret follow their rules', async () => {
    await admin.post('/configmaps', { json: { name: 'fixed', data: { a: 'b' }, immutable: true } });
    expect(await admin.patch('/configmaps/fixed', { json: { data: {} } })).toMatchObject({
      status: 400,
      body: { code: 'CONFIGMAP_IMMUTABLE' },
    });
    const data = { 'tls.crt': base64('c'), 'tls.key': base64('k') };
    await admin.post('/secrets', { json: { name: 'tls', type: 'tls', data } });
    expect(await stored('tls')).toMatchObject({ type: 'Opaque', data });
  });

  test('one that kubectl made gets a number, which no other has, and the annotation of the last change', async () => {
    await kubectl('by-hand', { a: base64('b') });
    await expect.poll(async () => (await labelsOf('by-hand'))[LABELS.id], { timeout: 10_000 }).toBeDefined();
    const { body } = await admin.get('/secrets/by-hand');
    expect(body).toMatchObject({ name: 'by-hand', type: 'Opaque', data: { a: 'b' } });
    expect((await admin.get('/secrets')).body.secrets.filter(({ id }: { id: number }) => id === body.id)).toHaveLength(
      1,
    );
    await admin.patch('/secrets/by-hand', { json: { data: { a: 'c' } } });
    expect((await stored('by-hand')).metadata.annotations?.[ANNOTATIONS.updatedAt]).toBeDefined();
  });
});

describe('what microservices use of secrets', () => {
  test('another value of a variable is another revision; without its secret the microservice is held', async () => {
    await kubectl('env', { pass: base64('one') });
    await expect.poll(() => replica.stores.secrets.get(cluster.namespace, 'env'), { timeout: 10_000 }).toBeDefined();
    const env = [{ key: 'PASS', valueFromSecret: 'env/pass' }];
    expect((await application('env', { env })).status).toBe(201);
    const before = revision('env');
    expect(before).toBeDefined();
    await expect.poll(async () => (await labelsOf('env'))[LABELS.inUse], { timeout: 10_000 }).toBe('true');
    await admin.patch('/secrets/env', { json: { data: { pass: 'two' } } });
    expect(revision('env')).not.toBe(before);
    await admin.patch('/secrets/env', { json: { data: { pass: 'one' } } });
    expect(revision('env')).toBe(before);
    await cluster.kube.delete(RESOURCES.secrets, { namespace: cluster.namespace, name: 'env' });
    await expect.poll(() => item('env'), { timeout: 10_000 }).toMatchObject({ hold: true, reason: 'SecretNotFound' });
  });

  test('a volume mount counts each change of its content once, and its secret is in use by it', async () => {
    await admin.post('/secrets', { json: { name: 'files', type: 'Opaque', data: { 'conf/a': '1', 'conf/b': '1' } } });
    const made = await admin.post('/volumeMounts', { json: { name: 'files', secretName: 'files' } });
    expect(made).toMatchObject({ status: 200, body: { version: 1 } });
    const counted = () => replica.stores.volumeMounts.get(cluster.namespace, 'files')?.status?.version;
    await expect.poll(counted, { timeout: 10_000 }).toBe(1);
    const volume = (hostDestination: string) => ({
      volumeMappings: [{ hostDestination, containerDestination: '/m', accessMode: 'ro', type: 'volumeMount' }],
    });
    expect((await application('directory', volume('files/conf'))).status).toBe(201);
    expect((await application('key', volume('files/conf/a'))).status).toBe(201);
    const [directory, key] = [revision('directory'), revision('key')];
    await expect.poll(async () => (await labelsOf('files'))[LABELS.inUse], { timeout: 10_000 }).toBe('true');
    expect(counted()).toBe(1);
    expect(desired.state(node)?.volumeMounts).toMatchObject([{ name: 'files', version: 1 }]);

    await admin.patch('/secrets/files', { json: { data: { 'conf/a': '2', 'conf/b': '1' } } });
    expect(desired.state(node)?.volumeMounts).toMatchObject([
      { name: 'files', version: 2, type: 'secret', data: { 'conf/a': base64('2'), 'conf/b': base64('1') } },
    ]);
    expect(revision('directory')).toBe(directory);
    expect(revision('key')).not.toBe(key);
    await expect.poll(counted, { timeout: 10_000 }).toBe(2);
    expect((await admin.get('/volumeMounts/files')).body.version).toBe(2);

    expect(await admin.delete('/secrets/files')).toMatchObject({ status: 409, body: { code: 'SECRET_IN_USE' } });
    for (const name of ['directory', 'key']) expect((await admin.delete(`/application/${name}`)).status).toBe(204);
    await expect.poll(async () => (await labelsOf('files'))[LABELS.inUse], { timeout: 10_000 }).toBeUndefined();
    expect((await admin.delete('/secrets/files')).status).toBe(200);
    expect((await admin.get('/volumeMounts/files')).status).toBe(404);
  });
});
