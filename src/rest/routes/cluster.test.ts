import { expect, test } from 'vitest';
import { serveInMemory } from '../_server.ts';

const admin = (await serveInMemory()).as('admin');

const uuids = async (query = '') =>
  (await admin.get(`/cluster/controllers${query}`)).body.map(({ uuid }: { uuid: string }) => uuid);

test('the list has active replicas only, and others on request', async () => {
  expect(await uuids()).toEqual(['active']);
  expect(await uuids('?includeInactive=true')).toEqual(['active', 'former']);
  expect((await admin.get('/cluster/controllers?includeInactive=maybe')).status).toBe(400);
});

test('PATCH changes the host and nothing else', async () => {
  expect((await admin.patch('/cluster/controllers/active', { json: { host: 'a.example' } })).body.host).toBe(
    'a.example',
  );
  for (const json of [{}, { host: '' }, { host: 'a', isActive: false }])
    expect((await admin.patch('/cluster/controllers/active', { json })).status).toBe(400);
  expect((await admin.patch('/cluster/controllers/none', { json: { host: 'a' } })).status).toBe(404);
});

test('DELETE keeps the replica as an inactive one, however often it is repeated', async () => {
  for (let i = 0; i < 2; i++) expect((await admin.delete('/cluster/controllers/former')).status).toBe(204);
  expect((await admin.get('/cluster/controllers/former')).body.isActive).toBe(false);
  expect(await admin.delete('/cluster/controllers/none')).toMatchObject({
    status: 404,
    body: { code: 'CLUSTER_CONTROLLER_NOT_FOUND' },
  });
});
