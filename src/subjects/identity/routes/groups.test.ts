import { describe, expect, test } from 'vitest';
import { API_VERSION } from '../../../api/names.ts';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { permits } from '../../../rest/_rules.ts';
import { serveInMemory } from '../../../rest/_server.ts';
import { rulesOf } from '../../../rest/access/roles.ts';

/** Logins are on: these routes need nothing else of the door. */
const signal = AbortSignal.timeout(60_000);
const identity = { mode: 'embedded' } as never;
const clerk = { apiGroups: ['skerry.dev'], resources: ['authgroups'], verbs: ['get', 'create', 'patch'] };
const rules = { admin: rulesOf('admin'), clerk: [clerk], sre: rulesOf('sre') };
const deps = createMemoryDependencies({
  identity,
  authenticator: { authenticate: async (name) => (name in rules ? { name, groups: [] } : undefined) },
  authorizer: {
    allowed: async ({ name }, asked) => permits(rules[name as keyof typeof rules] ?? [], asked),
  },
});
const client = await serveInMemory({ deps });
const admin = client.as('admin');
const asClerk = client.as('clerk');
const object = { apiVersion: API_VERSION, kind: 'AuthGroup' };
for (const name of ['admin', 'viewer'])
  await deps.authGroups.create({ ...object, metadata: { name }, spec: {} } as never, signal);

describe('a group', () => {
  test('is created, read, listed by name, changed and deleted', async () => {
    const created = await admin.post('/groups', { json: { name: ' Crew ' } });
    expect(created).toMatchObject({ status: 201, body: { name: 'crew', isSystem: false, mfaRequired: false } });
    expect((await admin.get('/groups/crew')).body).toEqual(created.body);
    const names = (await admin.get('/groups')).body.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['admin', 'crew', 'viewer']);
    expect((await admin.patch('/groups/crew', { json: { mfaRequired: true } })).body.mfaRequired).toBe(true);
    expect((await admin.delete('/groups/crew')).status).toBe(204);
    expect(await admin.get('/groups/crew')).toMatchObject({ status: 404, body: { code: 'GROUP_NOT_FOUND' } });
  });

  test('keeps its former name for its members until that is no longer its alias', async () => {
    await admin.post('/groups', { json: { name: 'deck' } });
    expect((await admin.patch('/groups/deck', { json: { name: 'bridge' } })).body.name).toBe('bridge');
    expect((await admin.get('/groups/deck')).status).toBe(404);
    expect(deps.authGroups.find('called', 'deck')[0]?.spec).toMatchObject({ name: 'bridge', aliases: ['deck'] });
    expect((await admin.post('/groups', { json: { name: 'deck' } })).status).toBe(409);
    expect((await admin.patch('/groups/bridge', { json: { name: 'deck' } })).body.name).toBe('deck');
  });

  test('a group of the system keeps its name, and may ask for a second factor', async () => {
    expect(await admin.patch('/groups/admin', { json: { name: 'boss' } })).toMatchObject({
      status: 403,
      body: { code: 'SYSTEM_GROUP' },
    });
    expect((await admin.delete('/groups/admin')).status).toBe(403);
    expect((await admin.post('/groups', { json: { name: 'sre' } })).status).toBe(409);
    expect((await admin.patch('/groups/viewer', { json: { mfaRequired: true } })).body).toMatchObject({
      isSystem: true,
      mfaRequired: true,
    });
  });

  test('is refused without a change, with a wrong name and with unknown members', async () => {
    expect((await admin.patch('/groups/viewer', { json: {} })).status).toBe(400);
    for (const json of [{ name: 'two words' }, { name: 'x', colour: 'red' }, {}])
      expect((await admin.post('/groups', { json })).status).toBe(400);
  });

  test('a group that somebody names already is made, renamed and changed by who may bind it', async () => {
    expect((await asClerk.post('/groups', { json: { name: 'free' } })).status).toBe(201);
    await admin.post('/rolebindings', {
      json: { name: 'bound', roleRef: { name: 'admin' }, subjects: [{ kind: 'Group', name: 'bound' }] },
    });
    expect((await asClerk.post('/groups', { json: { name: 'bound' } })).status).toBe(403);
    expect((await asClerk.patch('/groups/free', { json: { name: 'bound' } })).status).toBe(403);
    expect((await asClerk.patch('/groups/admin', { json: { mfaRequired: false } })).status).toBe(403);
    expect((await admin.post('/groups', { json: { name: 'bound' } })).status).toBe(201);
  });
});

test('an export has users and groups and nothing secret, for admins alone', async () => {
  await deps.authUsers.create(
    { ...object, kind: 'AuthUser', metadata: { name: 'ann' }, spec: { email: 'ann@x', groups: ['admin'] } } as never,
    signal,
  );
  const { status, body } = await admin.post('/auth/migration/export');
  expect([status, body.authMode, body.users]).toEqual([
    200,
    'embedded',
    [{ id: expect.any(String), email: 'ann@x', groups: ['admin'] }],
  ]);
  expect(body.groups).toContainEqual({ name: 'admin', isSystem: true });
  expect((await client.as('sre').post('/auth/migration/export')).status).toBe(403);
});

test('without logins the routes answer 501', async () => {
  const off = (await serveInMemory({ deps: createMemoryDependencies({ identity: undefined }) })).as('admin');
  expect((await off.get('/groups')).status).toBe(501);
  expect((await off.post('/auth/migration/export')).status).toBe(501);
});
