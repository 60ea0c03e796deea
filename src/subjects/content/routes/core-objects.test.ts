import { describe, expect, test } from 'vitest';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import type { ConfigMap, Secret } from '../../../api/resources.ts';
import type { TestClient } from '../../../rest/_client.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { storedKey } from '../rules/core-objects/keys.ts';

const deps = createMemoryDependencies();
const client = await serveInMemory({ deps });
const admin = client.as('admin');

const base64 = (text: string) => Buffer.from(text).toString('base64');
const secretNamed = (name: string) => deps.stores.secrets.get('test', name) as Secret;
const mapNamed = (name: string) => deps.stores.configMaps.get('test', name) as ConfigMap;
/** An object as kubectl makes it. */
function kubectl(kind: 'Secret' | 'ConfigMap', name: string, more: object, metadata: object = {}) {
  const store = kind === 'Secret' ? deps.stores.secrets : deps.stores.configMaps;
  store.set({
    apiVersion: 'v1',
    kind,
    metadata: {
      name,
      namespace: 'test',
      uid: `uid-${name}`,
      resourceVersion: '1',
      creationTimestamp: '2026-01-01T00:00:00Z',
      labels: { [LABELS.shareable]: 'true' },
      ...metadata,
    },
    ...more,
  } as never);
}

describe('secrets over REST', () => {
  test('a secret is created, read, changed and deleted', async () => {
    const made = await admin.post('/secrets', { json: { name: 'db', type: 'Opaque', data: { user: 'a', pass: 'b' } } });
    expect(made).toMatchObject({ status: 201, body: { name: 'db', type: 'Opaque', data: { user: 'a', pass: 'b' } } });
    expect(made.body.id).toBeGreaterThan(0);
    expect(secretNamed('db')).toMatchObject({
      type: 'Opaque',
      metadata: { labels: { [LABELS.shareable]: 'true', [LABELS.id]: String(made.body.id) } },
      data: { user: base64('a'), pass: base64('b') },
    });
    expect((await admin.get('/secrets/db')).body).toEqual(made.body);
    const changed = await admin.patch('/secrets/db', { json: { data: { pass: 'c' } } });
    expect(changed).toMatchObject({ status: 200, body: { id: made.body.id, data: { pass: 'c' } } });
    expect(Date.parse(changed.body.updated_at)).toBeGreaterThanOrEqual(Date.parse(changed.body.created_at));
    expect(Object.keys(secretNamed('db').data ?? {})).toEqual(['pass']);
    expect(await admin.delete('/secrets/db')).toMatchObject({ status: 200, body: {} });
    expect(await admin.get('/secrets/db')).toMatchObject({ status: 404, body: { code: 'SECRET_NOT_FOUND' } });
  });

  test('a list has no data, and only shareable Secrets', async () => {
    await admin.post('/secrets', { json: { name: 'listed', type: 'Opaque', data: { key: 'value' } } });
    kubectl('Secret', 'hidden', { data: { key: base64('value') } }, { labels: {} });
    const { body } = await admin.get('/secrets');
    const names = body.secrets.map(({ name }: { name: string }) => name);
    expect(names).toContain('listed');
    expect(names).not.toContain('hidden');
    expect(JSON.stringify(body)).not.toContain('data');
    expect((await admin.get('/secrets/hidden')).status).toBe(404);
    expect((await admin.patch('/secrets/hidden', { json: { data: {} } })).status).toBe(404);
    expect((await admin.delete('/secrets/hidden')).status).toBe(404);
    expect(await admin.post('/secrets', { json: { name: 'hidden', type: 'Opaque', data: {} } })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME' },
    });
  });

  test('a caller without the permission for data gets 403 at a read, and replies without data at writes', async () => {
    const developer = admin.as('developer');
    const made = await developer.post('/secrets', { json: { name: 'mine', type: 'Opaque', data: { key: 'value' } } });
    expect(made.status).toBe(201);
    expect(made.body).not.toHaveProperty('data');
    expect(await developer.get('/secrets/mine')).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
    expect((await developer.get('/secrets')).status).toBe(200);
    expect((await admin.as('sre').get('/secrets/mine')).body.data).toEqual({ key: 'value' });
    expect((await admin.as('viewer').get('/secrets/mine')).status).toBe(403);
  });

  test.each([
    ['an unknown member', { name: 'x', type: 'Opaque', data: {}, labels: {} }, 'labels'],
    ['no type', { name: 'x', data: {} }, 'type'],
    ['no data', { name: 'x', type: 'Opaque' }, 'data'],
    ['no name', { type: 'Opaque', data: {} }, 'name'],
    ['an unknown type', { name: 'x', type: 'kubernetes.io/tls', data: {} }, 'type'],
    ['a number as a value', { name: 'x', type: 'Opaque', data: { pin: 4711 } }, 'data[pin]: must be text'],
    ['an empty key', { name: 'x', type: 'Opaque', data: { '': 'a' } }, 'data'],
    [
      'a tls value that is no base64',
      { name: 'x', type: 'tls', data: { 'tls.key': '-----BEGIN 4711' } },
      'data[tls.key]',
    ],
    ['no tls.key', { name: 'x', type: 'tls', data: { 'tls.crt': '' } }, 'data[tls.key]: is required'],
    ['no tls.crt', { name: 'x', type: 'tls', data: { 'tls.key': '' } }, 'data[tls.crt]: is required'],
    [
      'text and bytes of one key',
      { name: 'x', type: 'Opaque', data: { a: '' }, binaryData: { a: '' } },
      'data[a]: duplicate',
    ],
    ['bytes that are no base64', { name: 'x', type: 'Opaque', data: {}, binaryData: { a: '4711!' } }, 'binaryData[a]'],
    [
      'two keys that are stored as one',
      { name: 'x', type: 'Opaque', data: { 'a/b': '', [storedKey('a/b')]: '' } },
      'is stored under the same name as the key "a/b"',
    ],
    [
      'more keys than a Secret may have',
      { name: 'x', type: 'Opaque', data: Object.fromEntries(Array.from({ length: 513 }, (_, i) => [`k${i}`, ''])) },
      'data: must have at most 512 keys',
    ],
    [
      'keys whose spellings do not fit',
      {
        name: 'x',
        type: 'Opaque',
        data: Object.fromEntries(Array.from({ length: 200 }, (_, i) => [`${i}${'\u{1F600}'.repeat(250)}`, ''])),
      },
      'must take at most 131072 bytes',
    ],
    ['too many bytes', { name: 'x', type: 'Opaque', data: { a: 'x'.repeat(1024 * 1024 + 1) } }, ''],
  ])('a body with %s is refused with a message that names the member and no value', async (_, json, named) => {
    const { status, body } = await admin.post('/secrets', { json });
    expect([400, 413]).toContain(status);
    expect(body.message).toContain(named);
    expect(body.message).not.toContain('4711');
  });

  test('the values of a tls secret are base64 and reach the core Secret as bytes', async () => {
    const data = { 'tls.crt': base64('certificate'), 'tls.key': `${base64('key')}\n` };
    await admin.post('/secrets', { json: { name: 'cert', type: 'tls', data } });
    expect(secretNamed('cert')).toMatchObject({
      type: 'Opaque',
      metadata: { labels: { [LABELS.secretType]: 'tls' } },
      data: { 'tls.crt': base64('certificate'), 'tls.key': base64('key') },
    });
    expect(deps.lookups.secret('cert')?.data).toEqual({ 'tls.crt': 'certificate', 'tls.key': 'key' });
    expect((await admin.get('/secrets/cert')).body).toMatchObject({ type: 'tls', data: { 'tls.key': base64('key') } });
    expect((await admin.patch('/secrets/cert', { json: { data: { 'tls.key': '*' } } })).status).toBe(400);
    expect(await admin.patch('/secrets/cert', { json: { type: 'Opaque', data: {} } })).toMatchObject({
      status: 400,
      body: { code: 'SECRET_TYPE_MISMATCH' },
    });
    kubectl('Secret', 'native', {
      type: 'kubernetes.io/tls',
      data: { 'tls.crt': base64('c'), 'tls.key': base64('k') },
    });
    expect((await admin.get('/secrets/native')).body).toMatchObject({ type: 'tls', data: { 'tls.crt': base64('c') } });
    const other = { 'tls.crt': base64('d'), 'tls.key': base64('k') };
    expect((await admin.patch('/secrets/native', { json: { data: { 'tls.crt': base64('d') } } })).status).toBe(400);
    expect((await admin.patch('/secrets/native', { json: { data: other } })).status).toBe(200);
    expect(secretNamed('native').data).toEqual(other);
    expect(secretNamed('native').type).toBe('kubernetes.io/tls');
  });

  test('keys and names that core objects refuse keep their v3 spelling', async () => {
    const data = {
      'conf/site.json': '{}',
      'conf-site.json': 'other',
      '..': 'up',
      'mit Leerzeichen': 'x',
      __proto__x: 'y',
    };
    const name = 'Passwords of plant 7 / north';
    const path = `/secrets/${encodeURIComponent(name)}`;
    const { status } = await admin.post('/secrets', { json: { name, type: 'Opaque', data } });
    expect(status).toBe(201);
    expect((await admin.get(path)).body).toMatchObject({ name, data });
    const stored = deps.stores.secrets.byIndex('name', name)[0] as Secret;
    expect(stored.metadata.name).toMatch(/^passwords-of-plant-7-north-[0-9a-f]{8}$/);
    expect(stored.metadata.annotations?.[ANNOTATIONS.name]).toBe(name);
    for (const key of Object.keys(stored.data ?? {})) expect(key).toMatch(/^(?!\.\.)[-._a-zA-Z0-9]{1,253}$/);
    expect(deps.lookups.secret(name)?.data).toEqual(data);
    await admin.patch(path, { json: { data: { plain: 'a' } } });
    const after = deps.stores.secrets.byIndex('name', name)[0] as Secret;
    expect(after.metadata.annotations).not.toHaveProperty(ANNOTATIONS.keys);
    expect((await admin.delete(path)).status).toBe(200);
  });

  test.each(['skerry-revision-key', `provisioning-key-${'a'.repeat(64)}`, 'node-key-1', 'Skerry ids'])(
    'the name %s makes no object that the controller reads by its name',
    async (name) => {
      expect((await admin.post('/secrets', { json: { name, type: 'Opaque', data: { key: 'k' } } })).status).toBe(201);
      expect(deps.stores.secrets.get('test', name)).toBeUndefined();
      const [made] = deps.stores.secrets.byIndex('name', name);
      expect(made?.metadata.name).toMatch(/^x-/);
      expect((await admin.get(`/secrets/${encodeURIComponent(name)}`)).body).toMatchObject({
        name,
        data: { key: 'k' },
      });
      expect((await admin.post('/secrets', { json: { name, type: 'Opaque', data: {} } })).status).toBe(409);
    },
  );

  test('a taken name is 409, and the same PATCH twice writes once', async () => {
    const json = { name: 'once', type: 'Opaque', data: { a: 'b' } };
    await admin.post('/secrets', { json });
    expect(await admin.post('/secrets', { json })).toMatchObject({ status: 409, body: { code: 'DUPLICATE_NAME' } });
    await admin.patch('/secrets/once', { json: { data: { a: 'c' } } });
    const { resourceVersion } = secretNamed('once').metadata;
    expect((await admin.patch('/secrets/once', { json: { data: { a: 'c' } } })).status).toBe(200);
    expect(secretNamed('once').metadata.resourceVersion).toBe(resourceVersion);
  });

  test('bytes that are no text are shown in base64, and stay when text is changed', async () => {
    const bytes = Buffer.from([0xff, 0xfe]).toString('base64');
    kubectl('Secret', 'binary', { type: 'Opaque', data: { text: base64('t'), bytes } });
    expect((await admin.get('/secrets/binary')).body).toMatchObject({ data: { text: 't' }, binaryData: { bytes } });
    await admin.patch('/secrets/binary', { json: { data: { text: 'u' } } });
    expect(secretNamed('binary').data).toEqual({ text: base64('u'), bytes });
    const other = Buffer.from([0xfe]).toString('base64');
    await admin.patch('/secrets/binary', { json: { data: {}, binaryData: { other } } });
    expect(secretNamed('binary').data).toEqual({ other });
    const read = (await admin.get('/secrets/binary')).body;
    const { id, created_at, updated_at, ...copied } = read;
    const copy = await admin.post('/secrets', { json: { ...copied, name: 'binary-copy' } });
    expect([copy.status, secretNamed('binary-copy').data]).toEqual([201, { other }]);
  });

  test('an immutable secret may be sent again, and is changed in nothing', async () => {
    const yaml = `apiVersion: v1\nkind: Secret\nmetadata: {name: fixed}\nimmutable: true\ndata: {a: ${base64('b')}}\n`;
    expect(await admin.post('/secrets/yaml', { yaml })).toMatchObject({ status: 201, body: { immutable: true } });
    expect(secretNamed('fixed').immutable).toBe(true);
    expect(await admin.patch('/secrets/yaml/fixed', { yaml })).toMatchObject({
      status: 200,
      body: { data: { a: 'b' } },
    });
    for (const json of [{ data: { a: 'c' } }, { data: { a: 'b' }, immutable: false }])
      expect(await admin.patch('/secrets/fixed', { json })).toMatchObject({
        status: 400,
        body: { code: 'SECRET_IMMUTABLE' },
      });
  });

  test('foreign labels, annotations and owners of a Secret survive a change', async () => {
    const metadata = { annotations: { 'team.example/a': 'b' }, finalizers: ['team.example/f'] };
    kubectl('Secret', 'owned', { data: {} }, metadata);
    await admin.patch('/secrets/owned', { json: { data: { a: 'b' } } });
    expect(secretNamed('owned').metadata).toMatchObject(metadata);
  });
});

describe('secrets and config maps from files', () => {
  const v3 = 'kind: Secret\nmetadata: {name: NAME}\nspec: {type: Opaque}\ndata: {user: a, "conf/x": "{{ no }}"}\n';
  const flat = 'kind: Secret\nmetadata: {name: NAME}\ntype: Opaque\ndata: {user: a, "conf/x": "{{ no }}"}\n';
  const under =
    'apiVersion: skerry.dev/v3\nkind: Secret\nmetadata: {name: NAME}\nspec: {type: Opaque, data: {user: a, "conf/x": "{{ no }}"}}\n';
  const core = `apiVersion: v1\nkind: Secret\nmetadata: {name: NAME, labels: {a: b}, annotations: {skerry.dev/keys: '{"conf-x": "conf/x"}'}}\ndata: {user: ${base64('a')}}\nstringData: {"conf-x": "{{ no }}"}\n`;
  test.each([
    ['v3 files', v3],
    ['v3 files with the type at the top level', flat],
    ['kubectl with everything in spec', under],
    ['core Secrets', core],
  ])('a secret in the form of %s', async (form, text) => {
    const name = form.replaceAll(' ', '-').toLowerCase();
    const made = await admin.post('/secrets/yaml', { form: { part: 'secret', text: text.replace('NAME', name) } });
    expect(made).toMatchObject({
      status: 201,
      body: { name, type: 'Opaque', data: { user: 'a', 'conf/x': '{{ no }}' } },
    });
    const again = text.replace('NAME', name).replace('{{ no }}', 'changed');
    const changed = await admin.patch(`/secrets/yaml/${name}`, { yaml: again });
    expect(changed).toMatchObject({
      status: 200,
      body: { id: made.body.id, data: { user: 'a', 'conf/x': 'changed' } },
    });
    expect((await admin.patch('/secrets/yaml/other', { yaml: again })).status).toBe(400);
  });

  test.each([
    ['another kind', 'kind: ConfigMap\nmetadata: {name: y}\ndata: {}\n', 'kind'],
    ['an unknown member', 'kind: Secret\nmetadata: {name: y}\nspec: {type: Opaque, colour: red}\ndata: {}\n', 'colour'],
    ['two types', 'kind: Secret\nmetadata: {name: y}\nspec: {type: tls}\ntype: Opaque\ndata: {}\n', 'type'],
    ['no metadata', 'kind: Secret\ndata: {}\n', 'metadata'],
    [
      'a number as a value',
      'kind: Secret\nmetadata: {name: y}\nspec: {type: Opaque}\ndata: {pin: 4711}\n',
      'data[pin]',
    ],
    [
      'a foreign core type',
      'apiVersion: v1\nkind: Secret\nmetadata: {name: y}\ntype: kubernetes.io/ssh-auth\n',
      'type',
    ],
    [
      'plain text in a core Secret',
      'apiVersion: v1\nkind: Secret\nmetadata: {name: y}\ndata: {a: "4711!"}\n',
      'data[a]',
    ],
  ])('a file with %s is refused', async (_, yaml, named) => {
    const { status, body } = await admin.post('/secrets/yaml', { yaml });
    expect([status, body.code]).toEqual([400, 'VALIDATION_ERROR']);
    expect(body.message).toContain(named);
    expect(body.message).not.toContain('4711');
  });

  test('a config map with the members of v3 and of core objects', async () => {
    const yaml =
      'kind: ConfigMap\nmetadata: {name: site}\nspec: {immutable: false, useVault: true}\ndata: {site.json: "{}"}\n';
    const made = await admin.post('/configmaps/yaml', { form: { part: 'configMap', text: yaml } });
    expect(made).toMatchObject({ status: 201, body: { name: 'site', immutable: false, data: { 'site.json': '{}' } } });
    const native =
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: site}\ndata: {site.json: "[]"}\nimmutable: true\n';
    expect(await admin.patch('/configmaps/yaml/site', { yaml: native })).toMatchObject({
      status: 200,
      body: { immutable: true, data: { 'site.json': '[]' } },
    });
    expect(mapNamed('site')).toMatchObject({ immutable: true, data: { 'site.json': '[]' } });
    expect(await admin.patch('/configmaps/site', { json: { data: {} } })).toMatchObject({
      status: 400,
      body: { code: 'CONFIGMAP_IMMUTABLE' },
    });
    expect((await admin.delete('/configmaps/site')).status).toBe(200);
  });
});

describe('config maps over REST', () => {
  test('a config map is created, listed without data, read, changed in part and deleted', async () => {
    const made = await admin.post('/configmaps', { json: { name: 'map', data: { 'a/b': '1' }, useVault: true } });
    expect(made).toMatchObject({ status: 201, body: { name: 'map', immutable: false, data: { 'a/b': '1' } } });
    const { configMaps } = (await admin.get('/configmaps')).body;
    expect(configMaps).toEqual([expect.objectContaining({ id: made.body.id, name: 'map' })]);
    expect(configMaps[0]).not.toHaveProperty('data');
    expect((await admin.as('viewer').get('/configmaps/map')).body.data).toEqual({ 'a/b': '1' });
    await admin.patch('/configmaps/map', { json: { immutable: true } });
    expect((await admin.get('/configmaps/map')).body).toMatchObject({ immutable: true, data: { 'a/b': '1' } });
    expect(await admin.get('/configmaps/none')).toMatchObject({ status: 404, body: { code: 'CONFIGMAP_NOT_FOUND' } });
    expect(await admin.delete('/configmaps/map')).toMatchObject({ status: 200, body: {} });
    for (const json of [{ name: 'm', data: {}, extra: 1 }, { name: 'm' }, { data: {} }, { name: 'm', data: { n: 1 } }])
      expect((await admin.post('/configmaps', { json })).status).toBe(400);
  });
});

test('variables in reads have the value that they refer to: of a config map for all who read config maps, of a secret for who may get its data', async () => {
  await admin.post('/secrets', { json: { name: 'referred', type: 'Opaque', data: { pass: 'hidden' } } });
  await admin.post('/configmaps', { json: { name: 'referred', data: { mode: 'fast' } } });
  await admin.post('/node', { json: { name: 'gw-referred', archId: 1 } });
  const env = [
    { key: 'PASS', valueFromSecret: 'referred/pass' },
    { key: 'MODE', valueFromConfigMap: 'referred/mode' },
    { key: 'OWN', value: 'x' },
  ];
  const [pass, mode, own] = env;
  const images = [{ containerImage: 'x:1', archId: 1 }];
  const microservices = [{ name: 'web', agentName: 'gw-referred', images, env }];
  await admin.post('/application', { json: { name: 'referring', microservices } });
  const read = async (client: TestClient) => {
    const { body } = await client.get('/application/referring');
    const listed = (await client.get('/microservices?application=referring')).body.microservices[0];
    const one = (await client.get(`/microservices/${listed.uuid}`)).body;
    expect([listed.env, one.env]).toEqual([body.microservices[0].env, body.microservices[0].env]);
    return one;
  };
  const all = await read(admin);
  expect(all.env).toEqual([{ ...pass, value: 'hidden' }, { ...mode, value: 'fast' }, own]);
  const developer = admin.as('developer');
  expect((await read(developer)).env).toEqual([pass, { ...mode, value: 'fast' }, own]);
  expect((await admin.patch(`/microservices/${all.uuid}`, { json: { env: all.env } })).status).toBe(204);
  expect(deps.applications.find('name', 'referring')[0]?.spec.microservices?.[0]?.container?.env).toEqual(env);
});
