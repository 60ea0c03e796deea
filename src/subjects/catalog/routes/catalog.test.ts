import { beforeEach, describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { BUILT_IN_ITEMS } from '../rules/catalog-item.ts';

const deps = createMemoryDependencies();
for (const { name, spec } of BUILT_IN_ITEMS)
  await deps.catalogItems.create(
    { apiVersion: 'skerry.dev/v3', kind: 'CatalogItem', metadata: { name }, spec },
    new AbortController().signal,
  );
const client = await serveInMemory({ deps });
const [admin, viewer] = [client.as('admin'), client.as('viewer')];
await admin.post('/node', { json: { name: 'gw-1', archId: 1 } });
await admin.post('/application', { json: { name: 'shop' } });

const images = [{ archId: 1, containerImage: 'reader:2' }];
let serial = 0;
let name: string;
let id: string;
beforeEach(async () => {
  name = `Reader ${++serial}`;
  id = (await admin.post('/catalog/microservices', { json: { name, images, registryId: 1 } })).body.id;
});

const makeRegistry = async (json = {}) =>
  (await admin.post('/registries', { json: { url: 'registry.example', ...json } })).body.id as number;
const use = (json = {}) =>
  admin.post('/microservices', {
    json: { name: `m${serial}`, application: 'shop', agentName: 'gw-1', catalogItemId: Number(id), ...json },
  });

describe('a catalog item', () => {
  test('has a number as text, which is accepted as number as well', async () => {
    expect(id).toMatch(/^[1-9][0-9]+$/);
    const { status, body } = await admin.get(`/catalog/microservices/${id}`);
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ id, name, images, registryId: 1, isPublic: false }),
    ]);
    expect((await use()).status).toBe(201);
    expect((await use({ name: `n${serial}`, catalogItemId: id })).status).toBe(201);
  });

  test('is listed with those of the system, by number', async () => {
    const { catalogItems } = (await admin.get('/catalog/microservices')).body;
    expect(catalogItems.slice(0, 3).map((one: { id: string; name: string }) => [one.id, one.name])).toEqual([
      ['1', 'router'],
      ['2', 'bus'],
      ['3', 'debug'],
    ]);
    expect(catalogItems.at(-1)).toMatchObject({ id, name });
  });

  test('is changed in part, and what is sent back as read changes nothing', async () => {
    const path = `/catalog/microservices/${id}`;
    const registryId = await makeRegistry();
    const other = [{ archId: 2, containerImage: 'reader:3' }];
    expect((await admin.patch(path, { json: { images: other, registryId, category: 'SENSORS' } })).status).toBe(204);
    const { body } = await admin.get(path);
    expect(body).toMatchObject({ name, images: other, registryId, category: 'SENSORS' });
    expect((await admin.patch(path, { json: body })).status).toBe(204);
    expect((await admin.get(path)).body).toEqual(body);
    expect((await admin.patch(path, { json: { category: null } })).status).toBe(204);
    expect((await admin.get(path)).body.category).toBe('');
  });

  test.each<[string, object, number, string]>([
    ['without images', { images: undefined }, 400, 'VALIDATION_ERROR'],
    ['without a registry', { registryId: undefined }, 400, 'VALIDATION_ERROR'],
    ['with two images for one architecture', { images: [...images, ...images] }, 400, 'VALIDATION_ERROR'],
    ["of the system's publisher", { publisher: 'Skerry' }, 400, 'RESTRICTED_PUBLISHER'],
    ['of a registry that does not exist', { registryId: 4711 }, 404, 'REGISTRY_NOT_FOUND'],
    ['with a name that is taken', { name: 'router' }, 409, 'DUPLICATE_NAME'],
  ])('%s is refused', async (_, change, status, code) => {
    const json = { name: `Other ${serial}`, images, registryId: 1, ...change };
    expect(await admin.post('/catalog/microservices', { json })).toMatchObject({ status, body: { code } });
  });

  test('is changed only to what can be used', async () => {
    const path = `/catalog/microservices/${id}`;
    const hub = await makeRegistry({ type: 'hub' });
    expect(await admin.patch(path, { json: { registryId: hub } })).toMatchObject({
      status: 400,
      body: { code: 'INVALID_REGISTRY_TYPE', message: expect.stringContaining(`registryId: ${hub}`) },
    });
    expect((await admin.patch(path, { json: { images: [] } })).status).toBe(400);
    expect((await admin.patch(path, { json: { name: 'other' } })).status).toBe(400);
    expect((await admin.patch('/catalog/microservices/4711', { json: {} })).body.code).toBe('INVALID_CATALOG_ITEM_ID');
  });

  test('of the system cannot be changed or deleted, and can be used', async () => {
    expect(await admin.patch('/catalog/microservices/1', { json: { description: 'mine' } })).toMatchObject({
      status: 400,
      body: { code: 'SYSTEM_CATALOG_ITEM_UPDATE' },
    });
    expect(await admin.delete('/catalog/microservices/3')).toMatchObject({
      status: 400,
      body: { code: 'SYSTEM_CATALOG_ITEM_DELETE' },
    });
    expect((await use({ catalogItemId: 3 })).status).toBe(201);
  });

  test('that a microservice uses cannot be deleted, and its registry neither', async () => {
    const registryId = await makeRegistry();
    await admin.patch(`/catalog/microservices/${id}`, { json: { registryId } });
    const { uuid } = (await use()).body;
    expect(await admin.delete(`/catalog/microservices/${id}`)).toMatchObject({
      status: 400,
      body: { code: 'CATALOG_ITEM_IS_IN_USE', message: expect.stringContaining(`shop/m${serial}`) },
    });
    expect(await admin.delete(`/registries/${registryId}`)).toMatchObject({
      status: 400,
      body: { code: 'REGISTRY_IS_IN_USE', message: expect.stringContaining(`catalog item ${name}`) },
    });
    await admin.delete(`/microservices/${uuid}`);
    expect((await admin.delete(`/catalog/microservices/${id}`)).status).toBe(204);
    expect((await admin.get(`/catalog/microservices/${id}`)).status).toBe(404);
    expect((await admin.delete(`/registries/${registryId}`)).status).toBe(204);
  });

  test('is read by viewers and written by others', async () => {
    expect((await viewer.get(`/catalog/microservices/${id}`)).status).toBe(200);
    expect((await viewer.patch(`/catalog/microservices/${id}`, { json: {} })).status).toBe(403);
  });
});

describe('a microservice with a catalog item', () => {
  test('is read with the images and the registry that the item has now', async () => {
    const { uuid } = (await use()).body;
    const read = async () => (await admin.get(`/microservices/${uuid}`)).body;
    expect(await read()).toMatchObject({ catalogItemId: Number(id), images, registryId: 1 });
    const next = [{ archId: 1, containerImage: 'reader:3' }];
    const registryId = await makeRegistry();
    await admin.patch(`/catalog/microservices/${id}`, { json: { images: next, registryId } });
    expect(await read()).toMatchObject({ catalogItemId: Number(id), images: next, registryId });
    expect((await admin.patch(`/microservices/${uuid}`, { json: await read() })).status).toBe(204);
  });

  test('that has other images than the item is refused', async () => {
    const other = [{ archId: 1, containerImage: 'reader:4' }];
    const refused = { status: 400, body: { code: 'CATALOG_NOT_MATCH_IMAGES' } };
    expect(await use({ images: other })).toMatchObject(refused);
    const microservices = [{ name: 'm', agentName: 'gw-1', catalogItemId: Number(id), images: other }];
    expect(await admin.post('/application', { json: { name: `a${serial}`, microservices } })).toMatchObject(refused);
    expect((await use({ images })).status).toBe(201);
  });

  test('that does not exist is refused', async () => {
    expect(await use({ catalogItemId: 4711 })).toMatchObject({
      status: 404,
      body: { code: 'INVALID_CATALOG_ITEM_ID', message: expect.stringContaining('no catalog item 4711') },
    });
  });
});
