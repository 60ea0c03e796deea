import { expect, test } from 'vitest';
import { serveInMemory } from '../_server.ts';

const viewer = (await serveInMemory()).as('viewer');

test('application templates are there: HEAD responds 204', async () => {
  expect((await viewer.request('HEAD', '/capabilities/applicationTemplates')).status).toBe(204);
});

test('there is no bus yet: HEAD responds 404 under both spellings', async () => {
  expect((await viewer.request('HEAD', '/capabilities/bus')).status).toBe(404);
  expect((await viewer.request('HEAD', '/capabilities/nats')).status).toBe(404);
});
