import { describe, expect, test } from 'vitest';
import { ANNOTATIONS, LABELS } from '../../../api/names.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

const deps = createMemoryDependencies();
const admin = (await serveInMemory({ deps })).as('admin');
const rules = [{ apiGroups: [''], resources: ['application*'], verbs: ['get', 'list'] }];
const stored = (name: string) => deps.stores.roles.get('test', name);

describe('a role', () => {
  test('is created, read, changed and deleted, and is a Role of the cluster', async () => {
    const created = await admin.post('/roles', { json: { name: 'reader', rules } });
    expect(created).toMatchObject({
      status: 201,
      body: { name: 'reader', kind: 'Role', rules, id: expect.any(Number) },
    });
    expect(stored('reader')).toMatchObject({
      metadata: { labels: { [LABELS.rbac]: 'role', [LABELS.id]: String(created.body.id) } },
      rules: [
        {
          apiGroups: ['skerry.dev'],
          resources: ['applications', 'applicationtemplates'],
          verbs: ['get', 'list', 'watch'],
        },
      ],
    });
    expect((await admin.get('/roles/reader')).body).toEqual(created.body);
    const changed = [{ apiGroups: [''], resources: ['nodes'], verbs: ['get'], resourceNames: ['gw-1'] }];
    expect(await admin.patch('/roles/reader', { json: { rules: changed } })).toMatchObject({
      status: 200,
      body: { ...created.body, rules: changed },
    });
    expect(stored('reader')?.rules).toEqual([
      { apiGroups: ['skerry.dev'], resources: ['edgenodes'], verbs: ['get'], resourceNames: ['gw-1'] },
    ]);
    expect((await admin.delete('/roles/reader')).status).toBe(204);
    expect(await admin.get('/roles/reader')).toMatchObject({ status: 404, body: { code: 'ROLE_NOT_FOUND' } });
    expect((await admin.delete('/roles/reader')).status).toBe(404);
  });

  test('has a name that no other role has', async () => {
    await admin.post('/roles', { json: { name: 'twice', rules } });
    expect(await admin.post('/roles', { json: { name: 'twice', rules } })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME' },
    });
    await admin.post('/roles', { json: { name: 'third', rules } });
    expect((await admin.patch('/roles/third', { json: { name: 'twice', rules } })).status).toBe(409);
    expect((await admin.get('/roles/third')).status).toBe(200);
  });

  test.each(['admin', 'sre', 'developer', 'viewer', 'agent-admin', 'microservice'])(
    'named %s belongs to the system: it is read and never created, changed, deleted or given to another role',
    async (name) => {
      const read = await admin.get(`/roles/${name}`);
      expect(read).toMatchObject({ status: 200, body: { name, kind: 'Role' } });
      expect(read.body).not.toHaveProperty('id');
      await admin.post('/roles', { json: { name: 'mine', rules } });
      const refused = { status: 400, body: { code: 'ROLE_IS_SYSTEM' } };
      expect(await admin.post('/roles', { json: { name, rules } })).toMatchObject(refused);
      expect(await admin.patch(`/roles/${name}`, { json: { rules } })).toMatchObject(refused);
      expect(await admin.delete(`/roles/${name}`)).toMatchObject(refused);
      expect(await admin.patch('/roles/mine', { json: { name, rules } })).toMatchObject(refused);
    },
  );

  test('is listed after the roles of the system', async () => {
    await admin.post('/roles', { json: { name: 'a-first', rules } });
    const { body } = await admin.get('/roles');
    const names = body.map(({ name }: { name: string }) => name);
    expect(names.slice(0, 6)).toEqual(['admin', 'sre', 'developer', 'viewer', 'agent-admin', 'microservice']);
    expect(names.slice(6)).toContain('a-first');
    expect(names.slice(6)).toEqual([...names.slice(6)].sort());
  });

  test('comes from a file, which is changed by the name in the path', async () => {
    const file = (name: string, text = 'rules: [{apiGroups: [""], resources: [fogs], verbs: [get]}]') => ({
      form: { part: 'role', text: `apiVersion: skerry.dev/v3\nkind: Role\nmetadata: {name: ${name}}\n${text}` },
    });
    expect((await admin.post('/roles/yaml', file('filed'))).status).toBe(201);
    const patched = await admin.patch(
      '/roles/yaml/filed',
      file('filed', 'rules: [{apiGroups: [""], resources: [events], verbs: [list]}]'),
    );
    expect([patched.status, patched.body.rules[0].resources]).toEqual([200, ['events']]);
    expect((await admin.patch('/roles/yaml/filed', file('other'))).status).toBe(400);
    expect((await admin.post('/roles/yaml', file('odd', 'colour: red\nrules: []'))).status).toBe(400);
  });

  test.each<[string, object, string]>([
    ['a name in upper case', { name: 'Reader' }, 'name'],
    ['a name of the installation', { name: 'skerry-mine' }, 'name'],
    ['no rules', { rules: [] }, 'rules'],
    ['an unknown member', { colour: 'red' }, 'colour'],
    ['a rule with an unknown member', { rules: [{ ...rules[0], nonResourceURLs: ['/'] }] }, 'nonResourceURLs'],
    ['another API group', { rules: [{ ...rules[0], apiGroups: ['apps'] }] }, 'rules[0].apiGroups[0]'],
    ['a rule without verbs', { rules: [{ ...rules[0], verbs: [] }] }, 'rules[0].verbs'],
  ])('is refused with %s', async (_, wrong, field) => {
    const { status, body } = await admin.post('/roles', { json: { name: 'wrong', rules, ...wrong } });
    expect([status, body.message]).toEqual([400, expect.stringContaining(field)]);
  });

  test('shows the rules of the cluster once somebody has changed them there', async () => {
    await admin.post('/roles', { json: { name: 'edited', rules } });
    const role = stored('edited');
    if (!role) throw new Error('no role');
    const edited = [{ apiGroups: ['skerry.dev'], resources: ['catalogitems'], verbs: ['get'] }];
    await deps.roles.replace({ ...role, rules: edited }, AbortSignal.timeout(5_000));
    expect((await admin.get('/roles/edited')).body.rules).toEqual([
      { apiGroups: [''], resources: ['catalog'], verbs: ['get'] },
    ]);
  });

  test('has the label, or is a Role of the cluster alone', async () => {
    deps.stores.roles.set({
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'Role',
      metadata: { name: 'native', namespace: 'test', uid: 'u', resourceVersion: '9999' },
      rules: [],
    });
    expect((await admin.get('/roles/native')).status).toBe(404);
    expect((await admin.delete('/roles/native')).status).toBe(404);
    expect((await admin.post('/roles', { json: { name: 'native', rules } })).status).toBe(409);
  });

  test('is renamed with its bindings', async () => {
    await admin.post('/roles', { json: { name: 'old', rules } });
    const subjects = [{ kind: 'Group', name: 'crew' }];
    const json = { name: 'crew', roleRef: { kind: 'Role', name: 'old' }, subjects };
    const bound = await admin.post('/rolebindings', { json });
    const renamed = await admin.patch('/roles/old', { json: { name: 'new', rules } });
    expect([renamed.status, renamed.body.name]).toEqual([200, 'new']);
    expect((await admin.get('/roles/old')).status).toBe(404);
    expect((await admin.get('/rolebindings/crew')).body).toEqual({
      ...bound.body,
      roleRef: { kind: 'Role', name: 'new' },
    });
    expect(stored('new')?.metadata.annotations?.[ANNOTATIONS.replaces]).toMatch(/^[0-9a-f-]{36}$/);
  });
});
