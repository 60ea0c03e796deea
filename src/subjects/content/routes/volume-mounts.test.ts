import { describe, expect, test } from 'vitest';
import { ANNOTATIONS } from '../../../api/names.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { contentName } from '../rules/volume-mount/volume-mount.ts';

const deps = createMemoryDependencies();
const admin = (await serveInMemory({ deps })).as('admin');
await admin.post('/secrets', { json: { name: 'db', type: 'Opaque', data: { user: 'a', 'conf/x': 'b' } } });
await admin.post('/configmaps', { json: { name: 'site', data: { a: 'b' } } });
const node = (await admin.post('/node', { json: { name: 'gw-1', archId: 1 } })).body.uuid;

/** An application whose microservice mounts this. */
const mounting = (name: string, hostDestination: string, more: object = {}) => ({
  name,
  microservices: [
    {
      name: 'reader',
      nodeUuid: node,
      images: [{ containerImage: 'plant/reader:1', archId: 1 }],
      volumeMappings: [{ hostDestination, containerDestination: '/m', accessMode: 'ro', type: 'volumeMount' }],
      ...more,
    },
  ],
});

describe('volume mounts over REST', () => {
  test('a volume mount is created, listed as a bare array, read, changed and deleted', async () => {
    const made = await admin.post('/volumeMounts', { json: { name: 'first', secretName: 'db' } });
    expect(made).toMatchObject({ status: 200, body: { name: 'first', secretName: 'db', version: 1 } });
    expect(made.body.uuid).toMatch(/^[0-9a-f-]{36}$/);
    expect((await admin.get('/volumeMounts')).body).toContainEqual(made.body);
    expect((await admin.get('/volumeMounts/first')).body).toEqual(made.body);
    const changed = await admin.patch('/volumeMounts/first', { json: { configMapName: 'site' } });
    expect(changed).toMatchObject({ status: 200, body: { uuid: made.body.uuid, configMapName: 'site' } });
    expect(changed.body).not.toHaveProperty('secretName');
    expect(await admin.delete('/volumeMounts/first')).toMatchObject({ status: 202, body: {} });
    expect(await admin.get('/volumeMounts/first')).toMatchObject({
      status: 404,
      body: { code: 'VOLUME_MOUNT_NOT_FOUND' },
    });
  });

  test('a node shows the volume mounts that it gets, linked ones and those that its microservices use', async () => {
    await admin.post('/volumeMounts', { json: { name: 'linked-one', secretName: 'db' } });
    const other = (await admin.post('/node', { json: { name: 'gw-shows', archId: 1 } })).body.uuid;
    expect((await admin.get(`/node/${other}`)).body.volumeMounts).toEqual([]);
    await admin.post('/volumeMounts/linked-one/link', { json: { fogUuids: [other] } });
    const shown = [{ name: 'linked-one', version: 1, secretName: 'db' }];
    expect((await admin.get(`/node/${other}`)).body.volumeMounts).toEqual(shown);
    const listed = async (wanted: string) => {
      const { fogs } = (await admin.get('/node-list')).body as { fogs: { uuid: string; volumeMounts: unknown }[] };
      return fogs.find(({ uuid }) => uuid === wanted)?.volumeMounts;
    };
    expect(await listed(other)).toEqual(shown);
    expect(await listed(node)).toEqual([]);
    await admin.post('/application', { json: mounting('shows', 'linked-one/user') });
    expect((await admin.get(`/node/${node}`)).body.volumeMounts).toEqual(shown);
    expect(await listed(node)).toEqual(shown);
    await admin.delete('/application/shows');
    await admin.delete('/volumeMounts/linked-one/link', { json: { fogUuids: [other] } });
    await admin.delete('/volumeMounts/linked-one');
  });

  test('a file creates and changes one, as a form and as a YAML body', async () => {
    const yaml = (source: string) =>
      `apiVersion: skerry.dev/v3\nkind: VolumeMount\nmetadata: {name: filed}\nspec: {${source}}\n`;
    const made = await admin.post('/volumeMounts/yaml', { yaml: yaml('secretName: db') });
    expect(made).toMatchObject({ status: 200, body: { name: 'filed', secretName: 'db' } });
    const form = { part: 'volumeMount', text: yaml('configMapName: site') };
    expect(await admin.patch('/volumeMounts/yaml/filed', { form })).toMatchObject({
      status: 200,
      body: { uuid: made.body.uuid, configMapName: 'site' },
    });
    expect((await admin.patch('/volumeMounts/yaml/other', { form })).status).toBe(400);
  });

  test.each([
    ['no source', { name: 'x' }, 400, 'VALIDATION_ERROR'],
    ['two sources', { name: 'x', secretName: 'db', configMapName: 'site' }, 400, 'VALIDATION_ERROR'],
    ['an unknown member', { name: 'x', secretName: 'db', colour: 'red' }, 400, 'VALIDATION_ERROR'],
    ['a name that is no label', { name: 'X.y', secretName: 'db' }, 400, 'VALIDATION_ERROR'],
    ['a Secret that does not exist', { name: 'x', secretName: 'none' }, 404, 'SECRET_NOT_FOUND'],
    ['a ConfigMap that does not exist', { name: 'x', configMapName: 'none' }, 404, 'CONFIGMAP_NOT_FOUND'],
  ])('a body with %s is refused', async (_, json, status, code) => {
    expect(await admin.post('/volumeMounts', { json })).toMatchObject({ status, body: { code } });
  });

  test('a PATCH with another name is refused like a file with another name, and one that repeats the name is not', async () => {
    await admin.post('/volumeMounts', { json: { name: 'kept', secretName: 'db' } });
    expect(await admin.patch('/volumeMounts/kept', { json: { name: 'other', secretName: 'db' } })).toMatchObject({
      status: 400,
      body: { message: 'name: "other"; is immutable and is "kept"' },
    });
    expect((await admin.patch('/volumeMounts/kept', { json: { name: 'kept', secretName: 'db' } })).status).toBe(200);
  });

  test('a taken name is 409', async () => {
    const json = { name: 'once', secretName: 'db' };
    await admin.post('/volumeMounts', { json });
    expect(await admin.post('/volumeMounts', { json })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME' },
    });
  });

  test('a change of the content counts at once in reads of one', async () => {
    await admin.post('/configmaps', { json: { name: 'counted', data: { a: '1' } } });
    await admin.post('/volumeMounts', { json: { name: 'counted', configMapName: 'counted' } });
    const [mount] = deps.stores.volumeMounts.byIndex('name', 'counted');
    if (!mount) throw new Error('no mount');
    const source = deps.lookups.configMap('counted');
    if (!source) throw new Error('no source');
    const content = contentName(mount, source);
    const { resourceVersion, ...metadata } = mount.metadata;
    const status = { observedGeneration: 1, version: 4, content };
    deps.stores.volumeMounts.set({
      ...mount,
      metadata: { ...metadata, resourceVersion: `${resourceVersion}0` },
      status,
    });
    expect((await admin.get('/volumeMounts/counted')).body.version).toBe(4);
    await admin.patch('/configmaps/counted', { json: { data: { a: '2' } } });
    expect((await admin.get('/volumeMounts/counted')).body.version).toBe(5);
  });

  test('links name nodes; nodes with a microservice that uses the mount count as linked, and are not unlinked', async () => {
    await admin.post('/volumeMounts', { json: { name: 'linked', secretName: 'db' } });
    expect(await admin.post('/volumeMounts/linked/link', { json: { fogUuids: [node] } })).toMatchObject({
      status: 200,
      body: { name: 'linked', secretName: 'db' },
    });
    expect((await admin.get('/volumeMounts/linked/link')).body).toEqual({ fogUuids: [node] });
    expect((await admin.delete('/volumeMounts/linked/link', { json: { fogUuids: [node] } })).status).toBe(200);
    expect((await admin.get('/volumeMounts/linked/link')).body).toEqual({ fogUuids: [] });
    expect((await admin.post('/application', { json: mounting('linker', 'linked/user') })).status).toBe(201);
    expect((await admin.get('/volumeMounts/linked/link')).body).toEqual({ fogUuids: [node] });
    expect(await admin.delete('/volumeMounts/linked/link', { json: { fogUuids: [node] } })).toMatchObject({
      status: 409,
      body: { code: 'VOLUME_MOUNT_UNLINK_IN_USE', message: expect.stringContaining('linker/reader') },
    });
  });

  test.each([
    ['none', 404, 'VOLUME_MOUNT_NOT_FOUND'],
    ['mapped/nothing', 400, 'SECRET_KEY_NOT_FOUND_IN_VOLUME_MOUNT'],
    ['mapped/../x', 400, 'INVALID_VOLUME_MOUNT_REFERENCE_FOR_VOLUME_MAPPING'],
    ['mapped/conf/x', 201, undefined],
    ['mapped/conf', 201, undefined],
    ['mapped', 201, undefined],
  ])('a mapping of %s gets %d', async (hostDestination, status, code) => {
    await admin.post('/volumeMounts', { json: { name: 'mapped', secretName: 'db' } });
    const name = `app-${hostDestination.replaceAll(/[^a-z]/g, '')}`;
    const answer = await admin.post('/application', { json: mounting(name, hostDestination) });
    expect([answer.status, answer.body.code]).toEqual([status, code]);
  });
});

describe('what is in use is not deleted', () => {
  test('a volume mount that a microservice uses, and its Secret', async () => {
    await admin.post('/secrets', { json: { name: 'used', type: 'Opaque', data: { a: 'b' } } });
    await admin.post('/volumeMounts', { json: { name: 'used', secretName: 'used' } });
    await admin.post('/application', { json: mounting('user', 'used') });
    for (const [path, code] of [
      ['/volumeMounts/used', 'VOLUME_MOUNT_IN_USE'],
      ['/secrets/used', 'SECRET_IN_USE'],
    ] as const)
      expect(await admin.delete(path)).toMatchObject({
        status: 409,
        body: { code, message: expect.stringContaining('user/reader') },
      });
    await admin.delete('/application/user');
    expect((await admin.delete('/secrets/used')).status).toBe(200);
    expect((await admin.get('/volumeMounts/used')).status).toBe(404);
  });

  test('a Secret that one microservice mounts and another reads, and both are named', async () => {
    await admin.post('/secrets', { json: { name: 'both', type: 'Opaque', data: { a: 'b' } } });
    await admin.post('/volumeMounts', { json: { name: 'both', secretName: 'both' } });
    await admin.post('/application', { json: mounting('mounts', 'both') });
    const env = [{ key: 'A', valueFromSecret: 'both/a' }];
    await admin.post('/application', { json: mounting('reads', 'x', { volumeMappings: [], env }) });
    expect(await admin.delete('/secrets/both')).toMatchObject({
      status: 409,
      body: { code: 'SECRET_IN_USE', message: 'secret both is used by mounts/reader, reads/reader' },
    });
  });

  test('a Secret with a mount that is protected, nor any of its mounts', async () => {
    await admin.post('/secrets', { json: { name: 'kept', type: 'Opaque', data: { a: 'b' } } });
    for (const name of ['kept-1', 'kept-2']) await admin.post('/volumeMounts', { json: { name, secretName: 'kept' } });
    const [mount] = deps.volumeMounts.find('name', 'kept-2');
    if (!mount) throw new Error('no mount');
    const annotations = { [ANNOTATIONS.protected]: 'true' };
    await deps.volumeMounts.replace(
      { ...mount, metadata: { ...mount.metadata, annotations } },
      AbortSignal.timeout(1_000),
    );
    expect(await admin.delete('/secrets/kept')).toMatchObject({ status: 409, body: { code: 'PROTECTED' } });
    expect((await admin.get('/volumeMounts/kept-1')).status).toBe(200);
    expect((await admin.get('/secrets/kept')).status).toBe(200);
  });

  test('a Secret and a config map whose values are in variables', async () => {
    await admin.post('/secrets', { json: { name: 'env', type: 'Opaque', data: { a: 'b' } } });
    await admin.post('/configmaps', { json: { name: 'env', data: { a: 'b' } } });
    const env = [
      { key: 'A', valueFromSecret: 'env/a' },
      { key: 'B', valueFromConfigMap: 'env/a' },
    ];
    expect((await admin.post('/application', { json: mounting('env', 'x', { volumeMappings: [], env }) })).status).toBe(
      201,
    );
    expect(await admin.delete('/secrets/env')).toMatchObject({ status: 409, body: { code: 'SECRET_IN_USE' } });
    expect(await admin.delete('/configmaps/env')).toMatchObject({ status: 409, body: { code: 'CONFIGMAP_IN_USE' } });
    await admin.delete('/application/env');
    expect((await admin.delete('/secrets/env')).status).toBe(200);
    expect((await admin.delete('/configmaps/env')).status).toBe(200);
  });
});
