import { expect, test } from 'vitest';
import { createMemoryDependencies } from '../../../rest/_memory.ts';
import { serveInMemory } from '../../../rest/_server.ts';

const deps = createMemoryDependencies();
const sre = (await serveInMemory({ deps })).as('sre');

/** Microservices that are deployed on a machine without a controller have this application name there. */
test.each(['skerry-agent', 'Skerry-Agent', 'SKERRY-AGENT'])('an application named %s is refused', async (name) => {
  const { status, body } = await sre.post('/application', { json: { name, microservices: [] } });
  expect([status, body.message]).toEqual([400, expect.stringContaining('name')]);
  expect(deps.stores.applications.get('test', name.toLowerCase())).toBeUndefined();
});

test('an application named skerry-agent is refused in a file', async () => {
  const file =
    'apiVersion: skerry.dev/v3\nkind: Application\nmetadata: {name: skerry-agent}\nspec: {microservices: []}\n';
  const { status, body } = await sre.post('/application/yaml', { form: { part: 'application', text: file } });
  expect([status, body.message]).toEqual([400, expect.stringMatching(/skerry-agent is reserved/)]);
});
