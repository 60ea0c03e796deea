import { expect, test } from 'vitest';
import { serveInMemory } from '../../../rest/_server.ts';

const admin = (await serveInMemory()).as('admin');

test('a microservice that cannot run as asked can be stopped, and neither started nor changed', async () => {
  const { body: node } = await admin.post('/node', { json: { name: 'gw-1' } });
  const entry = { name: 'web', nodeUuid: node.uuid, images: [{ containerImage: 'team/web:1', archId: 1 }] };
  await admin.post('/application', { json: { name: 'plant', microservices: [entry] } });
  const { body } = await admin.get('/microservices?application=plant');
  const path = `/microservices/${body.microservices[0].uuid}`;
  await admin.delete(`/node/${node.uuid}`);

  expect(await admin.patch(path, { json: { schedule: 10 } })).toMatchObject({ status: 404 });
  expect(await admin.patch(`${path}/stop`)).toMatchObject({ status: 204 });
  expect((await admin.get(path)).body).toMatchObject({ isActivated: false });
  expect(await admin.patch(`${path}/start`)).toMatchObject({ status: 404, body: { code: 'INVALID_NODE_UUID' } });
  expect(await admin.patch(path, { json: { isActivated: false, schedule: 10 } })).toMatchObject({ status: 404 });
});

test.each([
  ['JSON', { json: { name: 'shop', microservices: [{ name: 'w', images: [{ containerImage: 'w:1', archId: 1 }] }] } }],
  [
    'a file',
    { yaml: 'kind: Application\nmetadata: {name: shop}\nspec: {microservices: [{name: w, images: {amd64: "w:1"}}]}\n' },
  ],
] as const)('a microservice in %s without a node is refused in the words of that form', async (form, body) => {
  const path = form === 'JSON' ? '/application' : '/application/yaml';
  const words = form === 'JSON' ? 'agentName or nodeUuid' : 'agent.name or agent.uuid';
  expect(await admin.post(path, body)).toMatchObject({
    status: 400,
    body: { code: 'NODE_NOT_SET', message: `microservice w: names no node; give ${words}` },
  });
});

const FORMS = {
  JSON: (entry: object, more: object) => ({
    path: '/application',
    body: { json: { name: 'door', microservices: [{ name: 'w', agentName: 'gw-9', ...entry }], ...more } },
  }),
  'a file': (entry: object, more: object) => ({
    path: '/application/yaml',
    body: {
      yaml: JSON.stringify({
        apiVersion: 'skerry.dev/v3',
        kind: 'Application',
        metadata: { name: 'door' },
        spec: { microservices: [{ name: 'w', agent: { name: 'gw-9' }, ...entry }], ...more },
      }),
    },
  }),
};
const IMAGE = '"A B" is not valid: must be an image reference such as registry.example/team/app:1.2';
const image = { containerImage: 'w:1', archId: 1 };

test.each<[string, keyof typeof FORMS, object, string, object?]>([
  [
    'an image that is none',
    'JSON',
    { images: [image, { containerImage: 'A B', archId: 2 }] },
    `microservices[0].images[1].containerImage: ${IMAGE}`,
  ],
  ['an image that is none', 'a file', { images: { arm64: 'A B' } }, `spec.microservices[0].images.arm64: ${IMAGE}`],
  [
    'the uuid of a node that is none',
    'JSON',
    { images: [image], agentName: undefined, nodeUuid: 'nope' },
    'microservices[0].nodeUuid: "nope" is not valid: must be a UUID in lower case',
  ],
  [
    'a Secret without a key',
    'a file',
    { images: { amd64: 'w' }, container: { env: [{ key: 'A', valueFromSecret: 'db' }] } },
    'spec.microservices[0].container.env[0].valueFromSecret: "db" is not valid: must be <name>/<key>',
  ],
  [
    'a device that is none',
    'JSON',
    { images: [image], devices: [{ hostPath: 'x', containerPath: '/y' }] },
    'microservices[0].devices[0].hostPath: "x" is not valid: must be a path under /dev/',
  ],
  [
    'a template that does not exist',
    'JSON',
    { images: [image] },
    'template.name: there is no application template "nope"; create it first, or name another',
    { template: { name: 'nope' } },
  ],
  [
    'a template that does not exist',
    'a file',
    { images: { amd64: 'w' } },
    'spec.template.name: there is no application template "nope"; create it first, or name another',
    { template: { name: 'nope' } },
  ],
])(
  '%s in %s is refused with the member of that form, the value and what would be right',
  async (_, form, entry, message, more = {}) => {
    const { path, body } = FORMS[form](entry, more);
    expect((await admin.post(path, body)).body.message).toBe(message);
  },
);
