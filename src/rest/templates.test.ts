import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createTestClient, type TestClient } from './_client.ts';
import { createMemoryDependencies } from './_memory.ts';
import { ROLE_NAMES, rulesOf } from './access/roles.ts';
import { createRuleAuthorizer, createTokenTable } from './access/rules.ts';
import { routes } from './routes/index.ts';
import { createRestServer, type RestServer } from './server.ts';

/** May write everything and list nothing. */
const BLIND = rulesOf('developer').map((rule) => ({ ...rule, verbs: rule.verbs.filter((verb) => verb !== 'list') }));
const tokens = [...ROLE_NAMES, 'blind'];
const deps = createMemoryDependencies({
  authenticator: createTokenTable(Object.fromEntries(tokens.map((name) => [name, { name, groups: [] }]))),
  authorizer: createRuleAuthorizer({
    ...Object.fromEntries(ROLE_NAMES.map((role) => [role, rulesOf(role)])),
    blind: BLIND,
  }),
});
let server: RestServer;
let admin: TestClient;

beforeAll(async () => {
  server = createRestServer({ deps, routes });
  const { port } = await server.listen({ port: 0, host: '127.0.0.1' });
  admin = createTestClient(`http://127.0.0.1:${port}`, routes, 'admin');
  const created = await admin.post('/node', { json: { name: 'gw-1', archId: 1, host: '10.0.0.1' } });
  expect(created.status).toBe(201);
});
afterAll(() => server[Symbol.asyncDispose]());

const part = (more: object = {}) => ({
  name: 'reader',
  agentName: 'gw-1',
  images: [{ containerImage: 'x:1', archId: 1 }],
  ...more,
});
const stored = (name: string) => deps.applications.find('name', name)[0]?.spec;

describe('expressions in a body', () => {
  test('are replaced before it is read, with numbers as numbers', async () => {
    const ports = [{ internal: 80, external: '{{ self.microservices[0].ports[0].internal | plus: 8000 }}' }];
    const env = [{ key: 'HOST', value: '{{ "gw-1" | findAgent | map: "host" | first }}' }];
    const body = { name: 'bodies', description: '{{ self.name | upcase }}', microservices: [part({ ports, env })] };
    expect(await admin.post('/application', { json: body })).toMatchObject({ status: 201 });
    expect(stored('bodies')).toMatchObject({
      description: 'BODIES',
      microservices: [{ container: { ports: [{ external: 8080 }], env: [{ value: '10.0.0.1' }] } }],
    });
  });

  test('of a PATCH and of a PUT are replaced as well', async () => {
    await admin.post('/application', { json: { name: 'changes' } });
    await admin.patch('/application/changes', { json: { description: '{{ 1 | plus: 1 }} parts' } });
    expect(stored('changes')).toMatchObject({ description: '2 parts' });
    await admin.put('/application/changes', { json: { description: '{{ "b" | append: "c" }}' } });
    expect(stored('changes')).toMatchObject({ description: 'bc' });
  });

  test('of nodes, registries and microservices are replaced', async () => {
    expect((await admin.post('/node', { json: { name: 'gw-{{ 1 | plus: 1 }}', archId: '{{ 1 }}' } })).status).toBe(201);
    expect(deps.nodes.find('name', 'gw-2')).toHaveLength(1);
    expect((await admin.post('/registries', { json: { url: '{{ "r" }}.example' } })).status).toBe(201);
    expect(deps.registries.list().map(({ spec }) => spec.url)).toContain('r.example');
    await admin.post('/application', { json: { name: 'single' } });
    const json = part({ application: 'single', schedule: '{{ 10 | times: 2 }}' });
    expect((await admin.post('/microservices', { json })).status).toBe(201);
    expect(stored('single')?.microservices?.[0]).toMatchObject({ schedule: 20 });
  });

  test('of an uploaded file are replaced, self being the document', async () => {
    const yaml = `kind: Application
metadata: {name: files}
spec:
  description: "{{ self.kind }} {{ self.metadata.name }}"
  microservices: [{name: m, agent: {name: gw-1}, images: {amd64: "x:1"}, config: {rate: "{{ 5 }}"}}]`;
    expect((await admin.post('/application/yaml', { yaml })).status).toBe(201);
    expect(stored('files')).toMatchObject({
      description: 'Application files',
      microservices: [{ config: { rate: 5 } }],
    });
  });

  test.each([
    ['{{ missing }}', 400, 'EXPRESSION_FAILED', /^microservices\[0\]\.env\[0\]\.value: undefined variable: missing/],
    [
      '{{ "gw-9" | findAgent }}',
      400,
      'EXPRESSION_FAILED',
      /^microservices\[0\]\.env\[0\]\.value: there is no node "gw-9"/,
    ],
    ['{{ "x" | findApplication }}', 400, 'EXPRESSION_FAILED', /there is no application "x"/],
  ])('%s is %d %s, with the path of the field', async (value, status, code, message) => {
    const json = { name: 'fails', microservices: [part({ env: [{ key: 'A', value }] })] };
    const answer = await admin.post('/application', { json });
    expect(answer).toMatchObject({ status, body: { code, message: expect.stringMatching(message) } });
    expect(stored('fails')).toBeUndefined();
  });

  test('look up only what the caller may list', async () => {
    for (const value of [
      '{{ "gw-1" | findAgent }}',
      '{{ "bodies" | findApplication }}',
      '{{ "no" | findApplication }}',
    ]) {
      const json = { name: 'blind', description: value };
      expect(await admin.as('blind').post('/application', { json })).toMatchObject({
        status: 403,
        body: { code: 'FORBIDDEN', message: expect.stringMatching(/^description: blind may not list/) },
      });
    }
    expect(
      (await admin.as('blind').post('/application', { json: { name: 'seen', description: '{{ 1 }}!' } })).status,
    ).toBe(201);
  });

  test('are not evaluated for a caller who may not call the route', async () => {
    const json = { name: 'no', description: '{{ missing }}' };
    expect((await admin.as('viewer').post('/application', { json })).status).toBe(403);
  });

  test('are refused where a route does not render them', async () => {
    const { uuid } = (await admin.get('/microservices?application=bodies')).body.microservices[0];
    expect(await admin.patch(`/microservices/${uuid}/config`, { json: { a: '{{ 1 }}' } })).toMatchObject({
      status: 400,
      body: { message: expect.stringContaining('does not render') },
    });
  });

  test('never see the password of a registry', async () => {
    await admin.post('/registries', { json: { url: 'secret.example', username: 'ann', password: 'hunter2' } });
    const json = { name: 'thief', description: '{{ "bodies" | findApplication | toString | slice: 0, 900 }}' };
    expect((await admin.post('/application', { json })).status).toBe(201);
    expect(JSON.stringify(stored('thief'))).not.toContain('hunter2');
  });
});
