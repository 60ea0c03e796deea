import { describe, expect, test } from 'vitest';
import { serveInMemory } from '../../../rest/_server.ts';

const admin = (await serveInMemory()).as('admin');
const developer = admin.as('developer');
await admin.post('/node', { json: { name: 'gw' } });
const images = [{ containerImage: 'a:1', archId: 1 }];
for (const name of ['plant-a', 'plant-b'])
  await admin.post('/application', { json: { name, microservices: [{ name: 'reader', agentName: 'gw', images }] } });

const roleRef = { kind: 'Role', name: 'microservice' };
const account = (fields = {}) => ({ name: 'writer', applicationName: 'plant-a', roleRef, ...fields });

describe('a service account', () => {
  test('belongs to an application: two applications have accounts of one name', async () => {
    const created = await admin.post('/serviceaccounts', { json: account() });
    expect(created).toMatchObject({ status: 201, body: { ...account(), id: expect.any(Number) } });
    expect((await admin.post('/serviceaccounts', { json: account({ applicationName: 'plant-b' }) })).status).toBe(201);
    expect(await admin.post('/serviceaccounts', { json: account() })).toMatchObject({
      status: 409,
      body: { code: 'DUPLICATE_NAME' },
    });
    expect((await admin.get('/serviceaccounts/plant-a/writer')).body).toEqual(created.body);
    expect(await admin.get('/serviceaccounts/plant-a/nobody')).toMatchObject({
      status: 404,
      body: { code: 'SERVICE_ACCOUNT_NOT_FOUND' },
    });
    expect((await admin.get('/serviceaccounts')).body).toHaveLength(2);
    expect((await admin.get('/serviceaccounts?applicationName=plant-b')).body).toMatchObject([
      { applicationName: 'plant-b' },
    ]);
    expect((await admin.get('/serviceaccounts?applicationName=plant-z')).body).toEqual([]);
  });

  test('needs an application and a role that exist', async () => {
    const post = (fields: object) => admin.post('/serviceaccounts', { json: account({ name: 'lost', ...fields }) });
    expect(await post({ applicationName: 'none' })).toMatchObject({
      status: 404,
      body: { code: 'INVALID_APPLICATION_NAME' },
    });
    for (const wrong of [{ name: 'king' }, { kind: 'ClusterRole', name: 'microservice' }])
      expect(await post({ roleRef: wrong })).toMatchObject({ status: 400, body: { code: 'ROLE_NOT_FOUND' } });
    for (const wrong of [{ roleRef: undefined }, { applicationName: undefined }, { colour: 'red' }])
      expect((await post(wrong)).status).toBe(400);
  });

  test('changes its role, and neither its name nor its application', async () => {
    const path = '/serviceaccounts/plant-a/writer';
    const changed = account({ roleRef: { kind: 'Role', name: 'agent-admin' } });
    expect((await admin.patch(path, { json: changed })).body).toMatchObject(changed);
    for (const [field, value] of [
      ['name', 'other'],
      ['applicationName', 'plant-b'],
    ] as const)
      expect(await admin.patch(path, { json: { ...changed, [field]: value } })).toMatchObject({
        status: 400,
        body: { message: expect.stringContaining(`${field}: "${value}"; is immutable`) },
      });
    expect((await admin.patch(path, { json: account({ roleRef: { name: 'king' } }) })).status).toBe(400);
  });

  test.each(['name', 'applicationName', 'roleRef'])('is not changed by a body without %s', async (field) => {
    for (const empty of [undefined, null, ''])
      expect(await admin.patch('/serviceaccounts/plant-a/writer', { json: account({ [field]: empty }) })).toMatchObject(
        {
          status: 400,
          body: { message: `${field}: is required` },
        },
      );
  });

  test('gets a role that permits more than every microservice may from callers who may bind it', async () => {
    const strong = { kind: 'Role', name: 'agent-admin' };
    const json = account({ name: 'strong', roleRef: strong });
    const weak = { ...json, roleRef };
    expect(await developer.post('/serviceaccounts', { json })).toMatchObject({
      status: 403,
      body: { message: expect.stringContaining('may not bind roles "agent-admin"') },
    });
    expect((await developer.post('/serviceaccounts', { json: weak })).status).toBe(201);
    const at = '/serviceaccounts/plant-a/strong';
    expect((await developer.patch(at, { json })).status).toBe(403);
    expect((await admin.as('sre').patch(at, { json })).status).toBe(200);
    expect((await developer.patch(at, { json })).status).toBe(200);
    expect((await developer.patch(at, { json: weak })).status).toBe(200);
  });

  test('in an entry gives such a role only to callers who may bind it, and leaves other edits free', async () => {
    const images = [{ containerImage: 'a:1', archId: 1 }];
    const entry = { name: 'strong', agentName: 'gw', images, serviceAccount: { roleRef: { name: 'agent-admin' } } };
    const json = { name: 'plant-c', microservices: [entry] };
    const template = { name: 'powers', microservice: { serviceAccount: entry.serviceAccount } };
    expect((await developer.post('/microserviceTemplates', { json: template })).status).toBe(200);
    const { serviceAccount: _, ...plain } = entry;
    for (const [one, path, body] of [
      ['POST', '/application', json],
      ['PUT', '/application/plant-b', { microservices: [entry] }],
      ['POST', '/microservices', { ...entry, application: 'plant-b' }],
      ['POST', '/microservices', { ...plain, application: 'plant-b', template: { name: 'powers' } }],
    ] as const)
      expect([path, (await developer.request(one, path, { json: body })).status]).toEqual([path, 403]);
    expect((await admin.post('/application', { json })).status).toBe(201);
    const { uuid } = (await admin.get('/microservices?application=plant-c')).body.microservices[0];
    expect((await developer.patch(`/microservices/${uuid}`, { json: { schedule: 7 } })).status).toBe(204);
    expect((await developer.put('/application/plant-c', { json })).status).toBe(204);
  });

  test('is created and changed from a file, in the form of v3 and of kubectl', async () => {
    const v3 = (name: string, role: string) =>
      `kind: ServiceAccount\nmetadata: {name: ${name}, applicationName: plant-a}\nroleRef: {kind: Role, name: ${role}}\n`;
    const { status, body } = await admin.post('/serviceaccounts/yaml', {
      form: { part: 'serviceaccount', text: v3('file', 'microservice') },
    });
    expect([status, body.applicationName]).toEqual([201, 'plant-a']);
    const path = '/serviceaccounts/yaml/plant-a/file';
    expect((await admin.patch(path, { yaml: v3('file', 'viewer') })).body.roleRef.name).toBe('viewer');
    expect((await admin.patch(path, { yaml: v3('other', 'viewer') })).status).toBe(400);
    const homeless = 'kind: ServiceAccount\nmetadata: {name: file}\nroleRef: {kind: Role, name: viewer}\n';
    expect(await admin.patch(path, { yaml: homeless })).toMatchObject({
      status: 400,
      body: { message: 'applicationName: is required' },
    });
    const kubectl =
      'kind: ServiceAccount\nmetadata: {name: file}\nspec: {applicationName: plant-a, roleRef: {name: sre}}\n';
    expect((await admin.patch(path, { yaml: kubectl })).body.roleRef.name).toBe('sre');
  });

  test('that a microservice has is not deleted, and another one is', async () => {
    await admin.post('/serviceaccounts', { json: account({ name: 'reader' }) });
    expect(await admin.delete('/serviceaccounts/plant-a/reader')).toMatchObject({
      status: 409,
      body: { code: 'SERVICE_ACCOUNT_IN_USE', message: expect.stringContaining('plant-a/reader') },
    });
    expect((await admin.delete('/serviceaccounts/plant-a/writer')).status).toBe(204);
    expect((await admin.delete('/serviceaccounts/plant-a/writer')).status).toBe(404);
    expect((await admin.get('/serviceaccounts/plant-b/writer')).status).toBe(200);
  });
});
