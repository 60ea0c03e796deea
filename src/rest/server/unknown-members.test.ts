import { expect, test } from 'vitest';
import type { TestClient } from '../_client.ts';
import { serveInMemory } from '../_server.ts';
import { warningHeader } from './unknown-members.ts';

const admin = (await serveInMemory()).as('admin');
await admin.post('/node', { json: { name: 'gw-1', archId: 1 } });

const entry = (more: object = {}) => ({
  ...{ name: 'w', agentName: 'gw-1', images: [{ containerImage: 'w:1', archId: 1 }] },
  ...more,
});
const file = (spec: string, apiVersion = 'iofog.org/v3') =>
  `apiVersion: ${apiVersion}\nkind: Application\nmetadata: {name: plant}\nspec: ${spec}\n`;
const FILE_ENTRY = 'name: w, agent: {name: gw-1}, images: {amd64: "w:1"}';

test.each<[string, (name: string) => Parameters<TestClient['post']>, string]>([
  [
    'a misspelt member of an application',
    (name) => ['/application', { json: { name, descripton: 'hi' } }],
    'unknown members were dropped: descripton (description?)',
  ],
  [
    'the form of files in JSON',
    (name) => ['/application', { json: { name, microservices: [entry({ container: { env: [] } })] } }],
    'unknown members were dropped: microservices[0].container',
  ],
  [
    'a misspelt member of a list item',
    (name) => [
      '/application',
      { json: { name, microservices: [entry({ ports: [{ internal: 1, external: 7, proto: 'tcp' }] })] } },
    ],
    'unknown members were dropped: microservices[0].ports[0].proto',
  ],
  [
    'many unknown members',
    (name) => [
      '/node',
      { json: { name, ...Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`surplus-${i}`, i])) } },
    ],
    `unknown members were dropped: ${Array.from({ length: 8 }, (_, i) => `surplus-${i}`).join(', ')} and 12 more`,
  ],
  [
    'a name with quotes and other characters',
    (name) => ['/registries', { json: { url: `${name}.example`, '"é\r\nX: 1\\': 1 } }],
    'unknown members were dropped: \\"???X: 1\\\\',
  ],
  [
    'an env variable with a space',
    (name) => ['/application', { json: { name, microservices: [entry({ env: [{ key: 'A B', value: '1' }] })] } }],
    'microservice w: the env variable \\"A B\\" has a name that most programs cannot read; use letters, digits and _',
  ],
])('%s is stored without it, and the header Warning says so', async (title, request, warning) => {
  const answer = await admin.post(...request(`a${title.length}`));
  expect(answer.status).toBe(201);
  expect(answer.headers.get('warning')).toBe(`299 - "${warning}"`);
});

test('a misspelt member of a file in the form of v3 is named in the header Warning, as are labels', async () => {
  const yaml = file(`{microservices: [{${FILE_ENTRY}, contaner: {env: []}, container: {envs: []}}]}`).replace(
    'name: plant',
    'name: plant, labels: {a: b}',
  );
  const { status, headers } = await admin.post('/application/yaml', { yaml });
  expect(status).toBe(201);
  expect(headers.get('warning')).toBe(
    '299 - "unknown members were dropped: spec.microservices[0].contaner (container?), spec.microservices[0].container.envs (env?)", 299 - "metadata.labels: has no effect over REST; set it with kubectl"',
  );
});

test.each([
  [
    `{microservices: [{${FILE_ENTRY}, contaner: {}}]}`,
    'spec.microservices[0]: unknown field "contaner"; did you mean container?',
  ],
  ['{unrelated: 1}', 'spec: unknown field "unrelated"'],
])('a file of the own apiVersion with a misspelt member is refused', async (spec, message) => {
  const yaml = file(spec, 'skerry.dev/v3').replace('plant', 'strict');
  expect(await admin.post('/application/yaml', { yaml })).toMatchObject({
    status: 400,
    body: { code: 'VALIDATION_ERROR', message },
  });
  expect(await admin.get('/application/strict')).toMatchObject({ status: 404 });
});

test('a file of another version of the own API is refused', async () => {
  const yaml = file('{}', 'skerry.dev/v9');
  expect(await admin.post('/application/yaml', { yaml })).toMatchObject({
    status: 400,
    body: { message: 'apiVersion: "skerry.dev/v9"; must be skerry.dev/v3' },
  });
});

test('what a read shows can be sent back without a warning', async () => {
  const everything = entry({
    ports: [{ internal: 1, external: 9001 }],
    env: [{ key: 'A', value: 'b' }],
    volumeMappings: [{ hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' }],
    extraHosts: [{ name: 'h', address: '10.0.0.1' }],
    config: '{"a": {"b": 1}}',
    annotations: '{"a": "b"}',
    healthCheck: { test: ['CMD', 'true'], retries: 3 },
  });
  const created = await admin.post('/application', { json: { name: 'back', microservices: [everything] } });
  expect(created.body).toEqual({ id: expect.any(Number), name: 'back' });
  const { body } = await admin.get('/application/back');
  const [microservice] = body.microservices;
  const { body: nodes } = await admin.get('/node-list');
  const [node] = nodes.fogs;
  for (const [method, path, json] of [
    ['PUT', '/application/back', body],
    ['PATCH', `/microservices/${microservice.uuid}`, microservice],
    ['PATCH', `/node/${node.uuid}`, (await admin.get(`/node/${node.uuid}`)).body],
  ] as const) {
    const answer = await admin.request(method, path, { json });
    expect(answer).toMatchObject({ status: 204 });
    expect(answer.headers.get('warning')).toBeNull();
  }
});

test('entries beside a template may have either form, and variables that the template does not have are named', async () => {
  const application = {
    microservices: [{ name: 'm', agent: { name: '{{ node }}' }, images: { amd64: 'x:{{ tag }}' } }],
  };
  const variables = [{ key: 'node' }, { key: 'port', defaultValue: 1 }];
  await admin.post('/applicationTemplate', { json: { name: 'line', variables, application } });
  const template = { name: 'line', variables: { node: 'gw-1', tag: '1', prt: 2 } };
  const json = { name: 'made', template, microservices: [{ name: 'm', container: {} }] };
  const { status, headers } = await admin.post('/application', { json });
  expect(status).toBe(201);
  expect(headers.get('warning')).toBe(
    '299 - "template.variables: the template \\"line\\" has no variable \\"prt\\"; did you mean port?"',
  );
});

const BROKEN = { application: { microservices: [{ name: 'm', images: { amd64: '{{ tag | nowhere }}' } }] } };
const BROKEN_PART = { microservice: { images: { amd64: '{{ tag | nowhere }}' } } };
const asFile = (kind: string, name: string, spec: object) =>
  JSON.stringify({ apiVersion: 'skerry.dev/v3', kind, metadata: { name }, spec });

test.each<[string, 'POST' | 'PUT' | 'PATCH', string, object, string]>([
  ['POST', 'POST', '/applicationTemplate', { json: { name: 'b1', ...BROKEN } }, 'application.microservices[0]'],
  ['PUT of a new one', 'PUT', '/applicationTemplate/b2', { json: BROKEN }, 'application.microservices[0]'],
  ['PUT of another', 'PUT', '/applicationTemplate/b2', { json: BROKEN }, 'application.microservices[0]'],
  [
    'POST of a file',
    'POST',
    '/applicationTemplate/yaml',
    { yaml: asFile('ApplicationTemplate', 'b3', BROKEN) },
    'spec.application.microservices[0]',
  ],
  ['POST', 'POST', '/microserviceTemplates', { json: { name: 'b1', ...BROKEN_PART } }, 'microservice'],
  ['PATCH', 'PATCH', '/microserviceTemplates/b1', { json: BROKEN_PART }, 'microservice'],
  [
    'PUT of a file',
    'PUT',
    '/microserviceTemplates/yaml/b1',
    { yaml: asFile('MicroserviceTemplate', 'b1', BROKEN_PART) },
    'spec.microservice',
  ],
])(
  'a template that cannot be rendered gets a Warning with place and reason at %s',
  async (_, method, path, body, place) => {
    const { status, headers } = await admin.request(method, path, body);
    expect(status).toBeLessThan(300);
    expect(headers.get('warning')).toBe(
      `299 - "the template cannot be rendered: ${place}.images.amd64: undefined filter: nowhere"`,
    );
  },
);

const YET = 'stored, but without effect yet:';

test('a setting of a node that nothing acts on is named by the write that asks for it', async () => {
  const warned = async (method: 'POST' | 'PATCH', path: string, json: object) =>
    (await admin.request(method, path, { json })).headers.get('warning');
  expect(
    await warned('POST', '/node', { name: 'idle', archId: 1, deploymentType: 'container', upgradeScanFrequency: 60 }),
  ).toBe(`299 - "${YET} deploymentType, upgradeScanFrequency"`);
  const { uuid } = (await admin.get('/node-list')).body.fogs.find(({ name }: { name: string }) => name === 'idle');
  expect(await warned('PATCH', `/node/${uuid}`, { busMode: 'server' })).toBe(`299 - "${YET} busMode"`);
  expect(await warned('PATCH', `/node/${uuid}`, { description: 'north', busMode: 'server' })).toBeNull();
});

test('access to the message bus is stored, and the write that asks for it says that nothing gives it', async () => {
  const json = {
    name: 'bus',
    busConfig: { busAccess: true },
    microservices: [entry({ busConfig: { busAccess: true } })],
  };
  const made = await admin.post('/application', { json });
  const again = await admin.patch('/application/bus', { json: { busConfig: { busAccess: true, busRule: 'all' } } });
  const other = await admin.patch('/application/bus', { json: { description: 'x' } });
  expect([made.status, again.status, other.status]).toEqual([201, 204, 204]);
  expect([made, again, other].map(({ headers }) => headers.get('warning'))).toEqual([
    `299 - "${YET} busConfig", 299 - "microservice w: ${YET} busConfig"`,
    `299 - "${YET} busConfig"`,
    null,
  ]);
});

const NO_VAULT = 'has no effect: there is no vault, and a ConfigMap of Kubernetes has the data';

test.each<[string, (use: boolean) => Parameters<TestClient['post']>, string]>([
  ['JSON', (useVault) => ['/configmaps', { json: { name: `json-${useVault}`, data: {}, useVault } }], 'useVault'],
  [
    'the spec of a file',
    (use) => [
      '/configmaps/yaml',
      { yaml: `kind: ConfigMap\nmetadata: {name: spec-${use}}\nspec: {useVault: ${use}}\ndata: {a: b}\n` },
    ],
    'spec.useVault',
  ],
  [
    'the top of a file',
    (use) => [
      '/configmaps/yaml',
      { yaml: `kind: ConfigMap\nmetadata: {name: top-${use}}\nuseVault: ${use}\ndata: {a: b}\n` },
    ],
    'useVault',
  ],
])('useVault in %s asks for a vault that is not there, and the header Warning says so', async (_, request, field) => {
  const asked = await admin.post(...request(true));
  expect(asked).toMatchObject({ status: 201, body: { useVault: false } });
  expect(asked.headers.get('warning')).toBe(`299 - "${field}: ${NO_VAULT}"`);
  expect((await admin.post(...request(false))).headers.get('warning')).toBeNull();
});

test('a change of a config map says as well that useVault has no effect', async () => {
  await admin.post('/configmaps', { json: { name: 'vault', data: {} } });
  const { status, headers } = await admin.patch('/configmaps/vault', { json: { useVault: true } });
  expect(status).toBe(200);
  expect(headers.get('warning')).toBe(`299 - "useVault: ${NO_VAULT}"`);
});

test('withCleanup removes neither image nor volumes, and the header Warning says so', async () => {
  await admin.post('/application', { json: { name: 'clean', microservices: [entry(), entry({ name: 'v' })] } });
  const { microservices } = (await admin.get('/application/clean')).body;
  const [asked, not] = await Promise.all(
    [true, false].map((withCleanup, index) =>
      admin.delete(`/microservices/${microservices[index].uuid}`, { json: { withCleanup } }),
    ),
  );
  expect([asked?.status, not?.status]).toEqual([204, 204]);
  expect(asked?.headers.get('warning')).toBe(
    '299 - "withCleanup: has no effect: image and volumes stay on the node; POST /node/{uuid}/prune removes images that nothing uses"',
  );
  expect(not?.headers.get('warning')).toBeNull();
});

test('a registry has the name and the spellings of a body, without a warning that they were dropped', async () => {
  const json = { url: 'named.example', name: 'team', userName: 'u', userEmail: 'a@b' };
  const made = await admin.post('/registries', { json });
  const again = await admin.patch(`/registries/${made.body.id}`, { json: { ...json, isPublic: false } });
  expect([made.status, again.status]).toEqual([201, 204]);
  expect([made, again].map(({ headers }) => headers.get('warning'))).toEqual([null, null]);
  const { body } = await admin.get(`/registries/${made.body.id}`);
  expect(body).toMatchObject({ name: 'team', username: 'u', userEmail: 'a@b' });
  expect(await admin.post('/registries', { json: { url: 'x.example', name: 'team' } })).toMatchObject({ status: 409 });
});

test('the header Warning has each text once, and a bounded length', () => {
  expect(warningHeader([])).toBeUndefined();
  expect(warningHeader(['a', 'a', 'b'])).toBe('299 - "a", 299 - "b"');
  const texts = Array.from({ length: 100 }, (_, i) => `${i} ${'"'.repeat(10_000)}`);
  expect(warningHeader(texts)?.length).toBeLessThan(5 * 1024);
  expect(warningHeader([`\\${'"'.repeat(10_000)}`])).toMatch(/^299 - "(?:[^"\\]|\\.)+"$/);
});
