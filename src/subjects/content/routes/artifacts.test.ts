import { describe, expect, test } from 'vitest';
import { type Application, ARTIFACT_KINDS, type ArtifactKind } from '../../../api/v3/index.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

/** Models and knowledge over REST, and the catalogs of microservices that bind them. */

const deps = createMemoryDependencies();
const admin = (await serveInMemory({ deps })).as('admin');
const hub = (await admin.post('/registries', { json: { url: 'hub.example', type: 'hub' } })).body.id;
const registry = (await admin.post('/registries', { json: { url: 'reg.example' } })).body.id;
const node = (await admin.post('/node', { json: { name: 'gw-1', archId: 1 } })).body.uuid;
await admin.post('/node', { json: { name: 'gw-2', archId: 1 } });

const WORDS = {
  models: { part: 'model', kind: 'Model', code: 'MODEL', catalog: 'MICROSERVICE_CATALOG', format: 'gguf' },
  knowledge: {
    part: 'knowledge',
    kind: 'Knowledge',
    code: 'KNOWLEDGE',
    catalog: 'MICROSERVICE_KNOWLEDGE',
    format: 'pdf',
  },
} as const;

let serial = 0;
const named = () => `tiny-${++serial}`;
const make = async (kind: ArtifactKind, fields: object = {}) => {
  const name = named();
  const json = { name, repo: 'team/tiny', registryId: hub, files: ['*.bin'], ...fields };
  return { name, ...(await admin.post(`/${kind}`, { json })) };
};

/** A microservice on the node, with these members; its uuid. */
async function microservice(
  fields: object = {},
): Promise<{ uuid: string; application: string; status: number; code?: string }> {
  const application = `shop-${++serial}`;
  await admin.post('/application', { json: { name: application } });
  const images = [{ containerImage: 'x:1', archId: 1 }];
  const json = { name: 'web', application, agentName: 'gw-1', images, ...fields };
  const { status, body } = await admin.post('/microservices', { json });
  return { uuid: body.uuid, application, status, code: body.code };
}
const entryOf = (application: string) =>
  (deps.applications.find('name', application)[0] as Application).spec.microservices?.[0];

describe.each(ARTIFACT_KINDS)('%s', (kind) => {
  const { part, code, catalog, format } = WORDS[kind];
  const yaml = (name: string, spec: string, apiVersion = 'skerry.dev/v3') => ({
    form: {
      part,
      text: `apiVersion: ${apiVersion}\nkind: ${WORDS[kind].kind}\nmetadata: {name: ${name}}\nspec: ${spec}`,
    },
  });
  const bind = (name: string) => ({ [kind]: { bindPath: '/data', items: [{ name }] } });

  test('are created, read, listed, changed and deleted', async () => {
    const { name, status, body } = await make(kind, { format });
    expect([status, body]).toEqual([
      200,
      { uuid: expect.any(String), name, repo: 'team/tiny', revision: '', registryId: hub, files: ['*.bin'], format },
    ]);
    expect((await admin.get(`/${kind}/${name}`)).body).toEqual(body);
    expect((await admin.get(`/${kind}`)).body[kind]).toContainEqual(body);
    const changed = await admin.patch(`/${kind}/${name}`, { json: { revision: 'v2', format: '' } });
    const { format: _, ...rest } = body;
    expect([changed.status, changed.body]).toEqual([200, { ...rest, revision: 'v2' }]);
    expect((await admin.delete(`/${kind}/${name}`)).status).toBe(202);
    expect((await admin.get(`/${kind}/${name}`)).body.code).toBe(`${code}_NOT_FOUND`);
  });

  test('have names that are unique and immutable labels', async () => {
    const { name } = await make(kind);
    expect((await admin.post(`/${kind}`, { json: { name, repo: 'a', registryId: 1 } })).status).toBe(409);
    expect((await admin.patch(`/${kind}/${name}`, { json: { name: 'other' } })).status).toBe(400);
    for (const wrong of ['a.b', 'A', 'a'.repeat(64), '-a'])
      expect((await admin.post(`/${kind}`, { json: { name: wrong, repo: 'a', registryId: 1 } })).status).toBe(400);
  });

  test('refuse members that they do not know, in JSON and in files', async () => {
    const refused = await admin.post(`/${kind}`, { json: { name: named(), repo: 'a', registryId: 1, size: 3 } });
    expect([refused.status, refused.body.message]).toEqual([400, expect.stringContaining('"size"')]);
    expect((await admin.post(`/${kind}/yaml`, yaml(named(), '{repo: a, registryId: 1, size: 3}'))).status).toBe(400);
  });

  test('name their registry by id or name, in either spelling, and a read shows its id', async () => {
    await admin.post('/registries', { json: { name: `named-${serial}-${kind}`, url: 'r.example', type: 'hub' } });
    const { body } = await make(kind, { registryId: `named-${serial}-${kind}` });
    expect(body.registryId).toEqual(expect.any(Number));
    const other = await make(kind, { registryId: undefined, registry: hub });
    expect(other.body.registryId).toBe(hub);
    const file = await admin.post(`/${kind}/yaml`, yaml(named(), `{repo: a, registry: ${hub}, files: [x]}`));
    expect([file.status, file.body.registryId]).toEqual([200, hub]);
    const both = await admin.post(`/${kind}`, { json: { name: named(), repo: 'a', registryId: 1, registry: 1 } });
    expect([both.status, both.body.message]).toEqual([
      400,
      expect.stringContaining('exactly one of registryId and registry'),
    ]);
  });

  test('get 404 for a registry that does not exist, and 400 for one that does not fit', async () => {
    expect((await make(kind, { registryId: 4711 })).body.code).toBe('REGISTRY_NOT_FOUND');
    expect((await make(kind, { registryId: 2, files: [] })).body.code).toBe('INVALID_REGISTRY_TYPE');
    const { name } = await make(kind, { registryId: registry, files: [] });
    const files = await admin.patch(`/${kind}/${name}`, { json: { files: ['a'] } });
    expect([files.status, files.body.code]).toEqual([400, `${code}_OCI_FILES_FORBIDDEN`]);
  });

  test('are created and replaced by a file that is PUT, which keeps identity and links', async () => {
    const name = named();
    const put = (spec: string, ...rest: [string?]) => admin.put(`/${kind}/yaml/${name}`, yaml(name, spec, ...rest));
    const created = await put(`{repo: a, registry: ${hub}, files: [x], revision: v1}`);
    expect([created.status, created.body.revision]).toEqual([200, 'v1']);
    await admin.post(`/${kind}/${name}/link`, { json: { fogUuids: [node] } });
    const replaced = await put(`{repo: b, registryId: ${hub}, files: [y]}`, 'iofog.org/v3');
    expect(replaced.body).toMatchObject({ uuid: created.body.uuid, repo: 'b', revision: '', files: ['y'] });
    expect((await admin.get(`/${kind}/${name}/link`)).body).toEqual({ fogUuids: [node] });
    expect((await put('{repo: b, registryId: 1}', 'example.org/v1')).status).toBe(400);
    expect((await admin.put(`/${kind}/yaml/other`, yaml(name, '{repo: b, registryId: 1}'))).status).toBe(400);
  });

  test('are linked to nodes and unlinked, again and again with the same result', async () => {
    const { name } = await make(kind);
    const link = { json: { fogUuids: ['gw-1'] } };
    for (let i = 0; i < 2; i++)
      expect((await admin.post(`/${kind}/${name}/link`, link)).body).toEqual({ fogUuids: [node] });
    expect((await admin.get(`/${kind}/${name}`)).body).not.toHaveProperty('nodes');
    for (let i = 0; i < 2; i++) expect((await admin.delete(`/${kind}/${name}/link`, link)).status).toBe(200);
    expect((await admin.get(`/${kind}/${name}/link`)).body).toEqual({ fogUuids: [] });
  });

  test('that a microservice binds count as linked, and are neither unlinked there nor deleted', async () => {
    const { name } = await make(kind);
    const { application, uuid } = await microservice(bind(name));
    expect((await admin.get(`/${kind}/${name}/link`)).body).toEqual({ fogUuids: [node] });
    const unlinked = await admin.delete(`/${kind}/${name}/link`, { json: { fogUuids: [node] } });
    expect([unlinked.status, unlinked.body.code]).toEqual([409, `${code}_UNLINK_IN_USE`]);
    expect((await admin.delete(`/${kind}/${name}/link`, { json: { fogUuids: ['gw-2'] } })).status).toBe(200);
    const deleted = await admin.delete(`/${kind}/${name}`);
    expect([deleted.status, deleted.body.code]).toEqual([409, `${code}_IN_USE`]);
    expect(deleted.body.message).toContain(`${application}/web (${uuid})`);
    await admin.delete(`/application/${application}`);
    expect((await admin.delete(`/${kind}/${name}`)).status).toBe(202);
  });

  test('of a registry prevent that it is deleted', async () => {
    const { body } = await admin.post('/registries', { json: { url: 'used.example', type: 'hub' } });
    const { name } = await make(kind, { registryId: body.id });
    const refused = await admin.delete(`/registries/${body.id}`);
    expect([refused.status, refused.body.message]).toEqual([400, expect.stringContaining(name)]);
  });

  test('are bound by a catalog that a PATCH replaces, without a rebuild order', async () => {
    const [one, two] = [await make(kind), await make(kind)];
    const { uuid, application } = await microservice();
    const patch = (json: object) => admin.patch(`/microservices/${uuid}/${kind}`, { json });
    expect((await patch({ bindPath: '/data', items: [{ name: one.name }] })).status).toBe(204);
    expect(entryOf(application)?.[kind]).toEqual({ bindPath: '/data', items: [{ name: one.name }] });
    expect((await patch({ bindPath: '/data', permissions: 'rw', items: [two.name] })).status).toBe(204);
    expect((await admin.get(`/microservices/${uuid}`)).body[kind]).toEqual({
      bindPath: '/data',
      permissions: 'rw',
      items: [{ name: two.name }],
    });
    expect((await patch({ items: [] })).status).toBe(204);
    expect(entryOf(application)?.[kind]).toBeUndefined();
    const [stored] = deps.applications.find('name', application);
    expect(stored?.metadata.annotations?.['skerry.dev/rebuild']).toBeUndefined();
  });

  test.each<[string, object, string]>([
    ['items without a path', { items: [{ name: 'a' }] }, 'BIND_PATH_REQUIRED'],
    ['a path without items', { bindPath: '/data', items: [] }, 'BIND_PATH_REQUIRES_ITEMS'],
    ['a relative path', { bindPath: 'data', items: [{ name: 'a' }] }, 'BIND_PATH_ABSOLUTE'],
    ['unknown permissions', { bindPath: '/data', permissions: 'x', items: [{ name: 'a' }] }, 'PERMISSIONS'],
    ['an item that is no name', { bindPath: '/data', items: [{ name: '../a' }] }, 'ITEM_NAME'],
    ['an item twice', { bindPath: '/data', items: [{ name: 'a' }, { name: 'a' }] }, 'DUPLICATE_ITEM'],
  ])('are not bound by a catalog with %s', async (_, json, rule) => {
    const { uuid } = await microservice();
    const { status, body } = await admin.patch(`/microservices/${uuid}/${kind}`, { json });
    expect([status, body.code]).toEqual([400, `${catalog}_${rule}`]);
    expect(body.message).toContain(kind);
  });

  test('that do not exist get 404 in a catalog', async () => {
    const { uuid } = await microservice();
    const json = { bindPath: '/data', items: [{ name: 'nowhere' }] };
    expect((await admin.patch(`/microservices/${uuid}/${kind}`, { json })).body.code).toBe(`${code}_NOT_FOUND`);
    expect((await microservice(bind('nowhere'))).code).toBe(`${code}_NOT_FOUND`);
  });

  test('of a microservice of a system application get 400', async () => {
    const { name } = await make(kind);
    const { uuid, application } = await microservice();
    const [stored] = deps.applications.find('name', application) as [Application];
    await deps.applications.replace(
      { ...stored, spec: { ...stored.spec, isSystem: true } },
      AbortSignal.timeout(5_000),
    );
    const { status, body } = await admin.patch(`/microservices/${uuid}/${kind}`, { json: bind(name)[kind] });
    expect([status, body.code]).toEqual([400, 'SYSTEM_MICROSERVICE_UPDATE']);
  });
});

test('a model of a hub needs files, and knowledge does not', async () => {
  const refused = await make('models', { files: [] });
  expect([refused.status, refused.body.code]).toEqual([400, 'MODEL_HF_FILES_REQUIRED']);
  expect((await make('knowledge', { files: [] })).status).toBe(200);
});

test('a format that is not known is refused for a model, and is unknown for knowledge', async () => {
  expect((await make('models', { format: 'scrolls' })).status).toBe(400);
  expect((await make('knowledge', { format: 'scrolls' })).body.format).toBe('unknown');
  expect((await make('knowledge', { format: 'PDF' })).body.format).toBe('pdf');
});

test('a model and a knowledge may have one name', async () => {
  const { name } = await make('models');
  expect((await admin.post('/knowledge', { json: { name, repo: 'a', registryId: 1 } })).status).toBe(200);
});
