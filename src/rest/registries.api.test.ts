import { describe, expect, test } from 'vitest';
import type {} from '../../hack/testing/provided.ts';
import { manifest } from '../../testing/manifest.ts';
import type { Registry } from '../api/v3/index.ts';
import { createLookups } from '../datastore/lookups.ts';
import { BUILT_INS } from '../subjects/catalog/rules/registry.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import { startTestCluster } from './_cluster.ts';

const cluster = await startTestCluster();
const { namespace } = cluster;
for (const { name, spec } of BUILT_INS)
  await cluster.kube.create(RESOURCES.registries, manifest('Registry', { name, namespace }, spec));
const replica = await cluster.startReplica();
const admin = replica.client.as(await cluster.token('admin'));
const developer = replica.client.as(await cluster.token('developer'));

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

  test('ids are not used twice, and an id that is not a number gets 400', async () => {
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

  test('that is built in is neither changed nor deleted', async () => {
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

test('a protected registry is not deleted through REST', async () => {
  const id = await create({ url: 'precious.example' });
  const ref = { namespace: cluster.namespace, name: `registry-${id}` };
  const protect = (value: string | null) =>
    cluster.kube.patch(RESOURCES.registries, ref, {
      type: 'merge',
      body: { metadata: { annotations: { 'skerry.dev/protected': value } } },
    });
  await protect('true');
  expect(await admin.delete(`/registries/${id}`)).toMatchObject({ status: 409, body: { code: 'PROTECTED' } });
  await protect(null);
  expect((await admin.delete(`/registries/${id}`)).status).toBe(204);
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

  test('is shown to callers with the permission, masked for others, and never in a list', async () => {
    const id = await create({ url: 'private.example', username: 'u', password: SECRET });
    expect((await admin.get(`/registries/${id}`)).body.password).toBe(SECRET);
    expect((await developer.get(`/registries/${id}`)).body.password).toBe('***');
    const { body } = await admin.get('/registries');
    expect(JSON.stringify(body)).not.toContain(SECRET);
    expect(body.registries.some((one: object) => 'password' in one)).toBe(false);
  });

  test('stays after an update with the mask, is replaced by another value and removed by null', async () => {
    const id = await create({ url: 'private.example', username: 'u', password: SECRET });
    const read = async () => (await admin.get(`/registries/${id}`)).body.password;
    await developer.patch(`/registries/${id}`, { json: { username: 'v', password: '***' } });
    expect(await read()).toBe(SECRET);
    await developer.patch(`/registries/${id}`, { json: { password: 'another' } });
    expect(await read()).toBe('another');
    const ref = (await find('registries', `registry-${id}`))?.spec.passwordSecretRef as { name: string };
    await developer.patch(`/registries/${id}`, { json: { password: null } });
    expect(await read()).toBe('');
    expect(await find('secrets', ref.name)).toBeUndefined();
  });

  test('of a Secret that the registry does not own is not read through it', async () => {
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

describe('a password never follows its registry', () => {
  const CA = Buffer.from('-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n').toString('base64');
  const make = () => create({ url: 'private.example', isPublic: false, username: 'ann', password: SECRET });
  const read = async (id: number) => (await admin.get(`/registries/${id}`)).body;
  const stored = async (id: number) => (await cluster.kube.get(RESOURCES.registries, refOf(id))) as Registry;
  const refOf = (id: number) => ({ namespace: cluster.namespace, name: `registry-${id}` });
  const kubectl = (id: number, spec: object) =>
    cluster.kube.patch(RESOURCES.registries, refOf(id), { type: 'merge', body: { spec } }).then(
      () => 'stored',
      (error: Error) => error.message,
    );
  const WIDENINGS: [string, object][] = [
    ['another host', { url: 'evil.example' }],
    ['another port', { url: 'private.example:5000' }],
    ['plain HTTP', { url: 'http://private.example' }],
    ['unchecked certificates', { insecure: true }],
    ['another CA', { ca: CA }],
  ];

  test.each(WIDENINGS)('to %s over REST: it is removed, and its Secret with it', async (_, change) => {
    const id = await make();
    const { passwordSecretRef: ref } = (await stored(id)).spec;
    expect((await developer.patch(`/registries/${id}`, { json: { ...change, password: '***' } })).status).toBe(204);
    expect(await read(id)).toMatchObject({ username: '', password: '' });
    expect((await stored(id)).spec).not.toHaveProperty('passwordSecretRef');
    expect(await find('secrets', ref?.name ?? '')).toBeUndefined();
  });

  test.each(WIDENINGS)('to %s with kubectl: the change is refused', async (_, change) => {
    expect(await kubectl(await make(), change)).toContain('a password does not follow its registry');
  });

  test.each(WIDENINGS)('to %s with kubectl in three steps: no node gets it', async (_, change) => {
    const id = await make();
    const { passwordSecretRef } = (await stored(id)).spec;
    for (const step of [{ passwordSecretRef: null }, change, { passwordSecretRef }])
      expect(await kubectl(id, step)).toBe('stored');
    expect((await read(id)).password).toBe('');
    const registry = await stored(id);
    const lookups = createLookups(replica.stores);
    await expect.poll(() => replica.stores.secrets.get(cluster.namespace, passwordSecretRef?.name ?? '')).toBeDefined();
    expect(lookups.registryPassword(registry)).toBeUndefined();
  });

  test('to another host, unless the same request sets it; the former Secret is deleted', async () => {
    const id = await make();
    const { passwordSecretRef: former } = (await stored(id)).spec;
    const json = { url: 'http://other.example', password: 'another' };
    expect((await developer.patch(`/registries/${id}`, { json })).status).toBe(204);
    expect(await read(id)).toMatchObject({ url: json.url, username: 'ann', password: 'another' });
    expect(await find('secrets', former?.name ?? '')).toBeUndefined();
    // The former destination with the former reference does not restore the password.
    expect(await kubectl(id, { url: 'private.example', passwordSecretRef: former })).toBe('stored');
    expect((await read(id)).password).toBe('');
  });

  test('to another registry that names its Secret, also after its own was deleted', async () => {
    const id = await make();
    const { passwordSecretRef, ...spec } = (await stored(id)).spec;
    const sly = {
      apiVersion: 'skerry.dev/v3',
      kind: 'Registry',
      metadata: { name: 'evil', namespace: cluster.namespace },
    };
    await cluster.kube.create(RESOURCES.registries, { ...sly, spec: { ...spec, id: 777_778, passwordSecretRef } });
    expect((await read(777_778)).password).toBe('');
    await cluster.kube.delete(RESOURCES.registries, refOf(id));
    await cluster.kube.create(RESOURCES.registries, {
      ...sly,
      metadata: refOf(id),
      spec: { ...spec, id: 777_779, passwordSecretRef },
    });
    expect((await read(777_779)).password).toBe('');
  });

  test('away from the place that a Secret made by hand names', async () => {
    const { namespace, kube } = cluster;
    const annotations = { 'skerry.dev/registry': 'https://private.example' };
    const data = { token: Buffer.from(SECRET).toString('base64') };
    const hands: Record<string, Record<string, string>> = {
      'by-hand': {},
      'by-hand-shared': { 'skerry.dev/shareable': 'true' },
    };
    for (const [name, labels] of Object.entries(hands)) {
      const metadata = { name, namespace, annotations, labels };
      await kube.create(RESOURCES.secrets, { apiVersion: 'v1', kind: 'Secret', metadata, data });
      const passwordSecretRef = { name, key: 'token' };
      const [there, elsewhere] = await Promise.all([
        create({ url: 'private.example' }),
        create({ url: 'evil.example' }),
      ]);
      for (const id of [there, elsewhere]) expect(await kubectl(id, { passwordSecretRef })).toBe('stored');
      expect((await read(there)).password).toBe(SECRET);
      expect((await read(elsewhere)).password).toBe('');
    }
  });
});
