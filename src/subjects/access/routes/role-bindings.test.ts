import { describe, expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

const deps = createMemoryDependencies();
const admin = (await serveInMemory({ deps })).as('admin');
const rules = [{ apiGroups: [''], resources: ['applications'], verbs: ['get'] }];
await admin.post('/roles', { json: { name: 'reader', rules } });
const roleRef = { kind: 'Role', name: 'reader' };
const crew = { kind: 'Group', name: 'crew' };
const json = (name: string, fields: object = {}) => ({ json: { name, roleRef, subjects: [crew], ...fields } });
const native = (name: string) => deps.roleBindings.find('name', name);

describe('a role binding', () => {
  test('is created, read, listed, changed and deleted, and is a RoleBinding of the cluster', async () => {
    const created = await admin.post('/rolebindings', json('crew'));
    expect(created).toMatchObject({
      status: 201,
      body: { name: 'crew', kind: 'RoleBinding', roleRef, subjects: [crew] },
    });
    expect(native('crew')).toMatchObject([
      {
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'reader' },
        subjects: [{ kind: 'Group', name: 'skerry:crew' }],
      },
    ]);
    expect((await admin.get('/rolebindings/crew')).body).toEqual(created.body);
    expect((await admin.get('/rolebindings')).body).toContainEqual(created.body);
    const subjects = [crew, { kind: 'User', name: 'ann@shore.example' }];
    const changed = await admin.patch('/rolebindings/crew', { json: { subjects } });
    expect(changed).toMatchObject({ status: 200, body: { ...created.body, subjects } });
    expect((await admin.delete('/rolebindings/crew')).status).toBe(204);
    expect(await admin.get('/rolebindings/crew')).toMatchObject({
      status: 404,
      body: { code: 'ROLE_BINDING_NOT_FOUND' },
    });
  });

  test('binds a role of the system by its object', async () => {
    await admin.post('/rolebindings', json('guests', { roleRef: { name: 'viewer' } }));
    expect(native('guests')[0]?.roleRef.name).toBe('skerry-viewer');
    expect((await admin.get('/rolebindings/guests')).body.roleRef).toEqual({ kind: 'Role', name: 'viewer' });
  });

  test('has another name and another role, and then its object is another one', async () => {
    const { body } = await admin.post('/rolebindings', json('moved'));
    const renamed = await admin.patch('/rolebindings/moved', { json: { name: 'there', roleRef: { name: 'viewer' } } });
    expect(renamed).toMatchObject({ status: 200, body: { id: body.id, name: 'there', roleRef: { name: 'viewer' } } });
    expect((await admin.get('/rolebindings/moved')).status).toBe(404);
    expect(native('there')).toHaveLength(1);
    expect((await admin.post('/rolebindings', json('there'))).status).toBe(409);
    expect((await admin.post('/rolebindings', json('moved'))).status).toBe(201);
    expect((await admin.patch('/rolebindings/moved', { json: { name: 'there' } })).status).toBe(409);
  });

  test.each<[string, object, object | undefined]>([
    ['a group in lower case', { kind: 'Group', name: 'CREW' }, { kind: 'Group', name: 'skerry:crew' }],
    ['a user as it is', { kind: 'User', name: 'Ann@x' }, { kind: 'User', name: 'skerry:Ann@x' }],
    [
      'a service account of the cluster',
      { kind: 'ServiceAccount', name: 'ci' },
      { kind: 'ServiceAccount', name: 'ci', namespace: 'test' },
    ],
    [
      'a service account elsewhere',
      { kind: 'ServiceAccount', name: 'skerry-controller', namespace: 'other' },
      { kind: 'ServiceAccount', name: 'skerry-controller', namespace: 'other' },
    ],
    ['never the account of the controller', { kind: 'ServiceAccount', name: 'skerry-controller' }, undefined],
    ['no group of the system', { kind: 'Group', name: 'system:masters' }, undefined],
    ['no user of the system', { kind: 'User', name: 'system:admin' }, undefined],
    ['no user with a namespace', { kind: 'User', name: 'ann', namespace: 'test' }, undefined],
    ['nothing else', { kind: 'Robot', name: 'r2' }, undefined],
  ])('has %s as a subject', async (_, subject, expected) => {
    const name = `subject-${crypto.randomUUID().slice(0, 8)}`;
    const { status } = await admin.post('/rolebindings', json(name, { subjects: [subject] }));
    expect(status).toBe(expected ? 201 : 400);
    const found = native(name)[0]?.subjects?.[0];
    if (expected) expect(found).toMatchObject(expected);
    else expect(found).toBeUndefined();
  });

  test('keeps a subject that kubectl has written as it is', async () => {
    await admin.post('/rolebindings', json('mixed'));
    const [known] = native('mixed');
    if (!known) throw new Error('no binding');
    const foreign = { kind: 'User', name: 'cluster-user', apiGroup: 'rbac.authorization.k8s.io' };
    const subjects = [...(known.subjects ?? []), foreign];
    await deps.roleBindings.replace({ ...known, subjects }, AbortSignal.timeout(5_000));
    const shown = (await admin.get('/rolebindings/mixed')).body.subjects;
    const json2 = { subjects: [...shown, { kind: 'Group', name: 'more' }] };
    expect((await admin.patch('/rolebindings/mixed', { json: json2 })).status).toBe(200);
    expect(native('mixed')[0]?.subjects).toEqual([
      ...subjects,
      { kind: 'Group', name: 'skerry:more', apiGroup: 'rbac.authorization.k8s.io' },
    ]);
  });

  test.each<[string, object, number]>([
    ['a role that does not exist', { roleRef: { name: 'king' } }, 400],
    ['a role of the whole cluster', { roleRef: { kind: 'ClusterRole', name: 'reader' } }, 400],
    ['no subject', { subjects: [] }, 400],
    ['an unknown member', { colour: 'red' }, 400],
    ['a name of the installation', { name: 'skerry-admin' }, 400],
  ])('is refused with %s', async (_, wrong, status) => {
    expect((await admin.post('/rolebindings', json('wrong', wrong))).status).toBe(status);
  });

  test('comes from a file', async () => {
    const file = (text: string) => ({ form: { part: 'rolebinding', text } });
    const text =
      'kind: RoleBinding\nmetadata: {name: filed}\nroleRef: {kind: Role, name: reader}\nsubjects: [{kind: Group, name: a}]';
    expect((await admin.post('/rolebindings/yaml', file(text))).status).toBe(201);
    const changed = await admin.patch('/rolebindings/yaml/filed', file(text.replace('name: a', 'name: b')));
    expect([changed.status, changed.body.subjects]).toEqual([200, [{ kind: 'Group', name: 'b' }]]);
  });
});
