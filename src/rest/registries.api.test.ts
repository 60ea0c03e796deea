import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { RESOURCES } from '../api/resources.ts';
import { BUILT_INS } from '../domain/registry/index.ts';
import type { TestClient } from './_client.ts';
import { startTestCluster, type TestCluster } from './_cluster.ts';

let cluster: TestCluster;
let admin: TestClient;
let developer: TestClient;

beforeAll(async () => {
  cluster = await startTestCluster(inject('kubeconfig'));
  const { namespace } = cluster;
  for (const { name, spec } of BUILT_INS)
    await cluster.kube.create(RESOURCES.registries, {
      apiVersion: 'skerry.dev/v3',
      kind: 'Registry',
      metadata: { name, namespace },
      spec,
    });
  const replica = await cluster.startReplica();
  admin = replica.client.as(await cluster.token('admin'));
  developer = replica.client.as(await cluster.token('developer'));
});
afterAll(() => cluster?.[Symbol.asyncDispose]());

const SECRET = 'hunter2-secret';
const create = async (json: object): Promise<number> => {
  const { status, body } = await admin.post('/registries', { json });
  expect(status).toBe(201);
  return body.id;
};
const find = <T extends 'secrets' | 'registries'>(plural: T, name: string) =>
  cluster.kube.find(RESOURCES[plural] as never, { namespace: cluster.namespace, name }) as Promise<
    | { spec: Record<string, unknown>; data: Record<string, string>; metadata: { ownerReferences?: object[] } }
    | undefined
  >;

describe('a registry', () => {
  test('is created, read, listed, changed and deleted', async () => {
    const id = await create({ url: 'registry.example:5000', isPublic: true, email: 'a@example.org' });
    expect(id).toBeGreaterThan(9);
    expect((await admin.get(`/registries/${id}`)).body).toMatchObject({
      id,
      url: 'registry.example:5000',
      userEmail: 'a@example.org',
      type: 'oci',
      insecure: false,
    });
    expect((await admin.patch(`/registries/${id}`, { json: { url: 'other.example', insecure: true } })).status).toBe(
      204,
    );
    expect((await admin.get(`/registries/${id}`)).body).toMatchObject({ url: 'other.example', insecure: true });
    expect((await admin.get('/registries')).body.registries.map((one: { id: number }) => one.id)).toEqual(
      expect.arrayContaining([1, 2, id]),
    );
    expect((await admin.delete(`/registries/${id}`)).status).toBe(204);
    expect((await admin.get(`/registries/${id}`)).status).toBe(404);
  });

  test('ids are not used twice, and a name that is no number is 400', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, (_, i) => create({ url: `r${i}.example` })));
    expect(new Set(ids).size).toBe(5);
    expect((await admin.get('/registries/x')).status).toBe(400);
    expect((await admin.get('/registries/999999')).status).toBe(404);
  });

  test.each([
    ['no url', {}, 'url'],
    ['an unknown type', { url: 'a', type: 'x' }, 'type'],
    ['a CA that is no certificate', { url: 'a', ca: 'eA==' }, 'ca'],
  ])('with %s is refused', async (_, json, field) => {
    const { status, body } = await admin.post('/registries', { json });
    expect(status).toBe(400);
    expect(body.message).toContain(field);
  });

  test('of the built-in ones is neither changed nor deleted', async () => {
    for (const id of [1, 2]) {
      expect(await admin.patch(`/registries/${id}`, { json: { url: 'x' } })).toMatchObject({
        status: 400,
        body: { code: 'REGISTRY_IS_SYSTEM' },
      });
      expect(await admin.delete(`/registries/${id}`)).toMatchObject({
        status: 400,
        body: { code: 'REGISTRY_IS_SYSTEM' },
      });
    }
  });
});

describe('a password', () => {
  test('is in a Secret that the registry owns, and nowhere else', async () => {
    const id = await create({ url: 'private.example', isPublic: false, username: 'u', password: SECRET });
    const registry = await find('registries', `registry-${id}`);
    expect(JSON.stringify(registry)).not.toContain(SECRET);
    const ref = registry?.spec.passwordSecretRef as { name: string; key: string };
    const secret = await find('secrets', ref.name);
    expect(Buffer.from(secret?.data[ref.key] ?? '', 'base64').toString()).toBe(SECRET);
    expect(secret?.metadata.ownerReferences?.[0]).toMatchObject({ kind: 'Registry', name: `registry-${id}` });
  });

  test('is shown to those who may see it, masked for others, and never in a list', async () => {
    const id = await create({ url: 'private.example', username: 'u', password: SECRET });
    expect((await admin.get(`/registries/${id}`)).body.password).toBe(SECRET);
    expect((await developer.get(`/registries/${id}`)).body.password).toBe('***');
    const { body } = await admin.get('/registries');
    expect(JSON.stringify(body)).not.toContain(SECRET);
    expect(body.registries.some((one: object) => 'password' in one)).toBe(false);
  });

  test('is kept when the mask comes back, replaced by another, and removed by null', async () => {
    const id = await create({ url: 'private.example', username: 'u', password: SECRET });
    const read = async () => (await admin.get(`/registries/${id}`)).body.password;
    await developer.patch(`/registries/${id}`, { json: { username: 'v', password: '***' } });
    expect(await read()).toBe(SECRET);
    await developer.patch(`/registries/${id}`, { json: { password: 'another' } });
    expect(await read()).toBe('another');
    await developer.patch(`/registries/${id}`, { json: { password: null } });
    expect(await read()).toBe('');
    expect(await find('secrets', `registry-${id}-password`)).toBeUndefined();
  });

  test("of a registry that names somebody else's Secret is not read through it", async () => {
    const { namespace, kube } = cluster;
    await kube.create(RESOURCES.secrets, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'not-yours', namespace },
      data: { key: Buffer.from(SECRET).toString('base64') },
    });
    await kube.create(RESOURCES.registries, {
      apiVersion: 'skerry.dev/v3',
      kind: 'Registry',
      metadata: { name: 'sly', namespace },
      spec: {
        url: 'a',
        id: 777_777,
        isPublic: false,
        type: 'oci',
        insecure: false,
        passwordSecretRef: { name: 'not-yours', key: 'key' },
      },
    });
    expect((await admin.get('/registries/777777')).body.password).toBe('');
  });
});
