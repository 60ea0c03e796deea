import { expect, test } from 'vitest';
import { createMemoryDependencies } from '../_memory.ts';
import { serveInMemory } from '../_server.ts';

const viewer = (await serveInMemory()).as('viewer');

test('application templates are there: HEAD responds 204', async () => {
  expect((await viewer.request('HEAD', '/capabilities/applicationTemplates')).status).toBe(204);
});

test.each([
  [false, 404],
  [true, 204],
])('a message bus that is on (%s): HEAD responds %i under both spellings', async (isBusEnabled, status) => {
  const deps = createMemoryDependencies();
  const client = (await serveInMemory({ deps: { ...deps, self: { ...deps.self, isBusEnabled } } })).as('viewer');
  expect((await client.request('HEAD', '/capabilities/bus')).status).toBe(status);
  expect((await client.request('HEAD', '/capabilities/nats')).status).toBe(status);
});
