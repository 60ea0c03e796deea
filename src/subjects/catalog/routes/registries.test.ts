import { expect, test } from 'vitest';
import { serveInMemory } from '../../../rest/_server.ts';

const admin = (await serveInMemory()).as('admin');

const CREDENTIALS = { username: 'u', password: 'p' };
const REMOVED = expect.stringMatching(/^299 - "user name and password were removed[^"]+"$/);

test.each([
  ['another host', { url: 'other.example' }, REMOVED],
  ['plain HTTP', { url: 'http://team.example' }, REMOVED],
  ['unchecked certificates', { insecure: true }, REMOVED],
  ['another host with credentials for it', { url: 'other.example', ...CREDENTIALS }, null],
  ['another user', { username: 'v' }, null],
])('a change of a registry to %s says whether it has removed the credentials', async (_, change, warning) => {
  const { body } = await admin.post('/registries', { json: { url: 'team.example', isPublic: false, ...CREDENTIALS } });
  const changed = await admin.patch(`/registries/${body.id}`, { json: change });
  expect([changed.status, changed.headers.get('warning')]).toEqual([204, warning]);
  const { password } = (await admin.get(`/registries/${body.id}`)).body;
  expect(password).toBe(warning === null ? 'p' : '');
});
