import { expect, test } from 'vitest';
import { serveInMemory } from '../../../rest/_server.ts';

const admin = (await serveInMemory()).as('admin');
const images = [{ containerImage: 'x:1', archId: 1 }];
const microservices = [
  { name: 'web', images },
  { name: 'doctor', images, serviceAccount: { roleRef: { kind: 'Role', name: 'agent-admin' } } },
  { name: 'own', images },
];
const nodeUuid = (await admin.post('/node', { json: { name: 'gw', archId: 1 } })).body.uuid;
await admin.post('/application', {
  json: { name: 'shop', microservices: microservices.map((one) => ({ ...one, nodeUuid })) },
});

const roleOf = async (name: string) => {
  const { status, body } = await admin.get(`/serviceaccounts/shop/${name}`);
  return [status, body.name, body.applicationName, body.roleRef];
};

test('the service account of a microservice is read by its name, also where no object was made for it', async () => {
  expect(await roleOf('web')).toEqual([200, 'web', 'shop', { kind: 'Role', name: 'microservice' }]);
  expect(await roleOf('doctor')).toEqual([200, 'doctor', 'shop', { kind: 'Role', name: 'agent-admin' }]);
  const roleRef = { kind: 'Role', name: 'viewer' };
  await admin.post('/serviceaccounts', { json: { name: 'own', applicationName: 'shop', roleRef } });
  expect(await roleOf('own')).toEqual([200, 'own', 'shop', roleRef]);
  const missing = [
    ['shop', 'none'],
    ['none', 'web'],
  ];
  for (const [application, name] of missing)
    expect(await admin.get(`/serviceaccounts/${application}/${name}`)).toMatchObject({
      status: 404,
      body: { code: 'SERVICE_ACCOUNT_NOT_FOUND' },
    });
});
