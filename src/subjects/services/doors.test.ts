import { describe, expect, test } from 'vitest';
import { NAMESPACE } from '../../../testing/in-memory-controller.ts';
import { API_VERSION } from '../../api/names.ts';
import { RESOURCES } from '../kinds.ts';
import { servicesInMemory } from './_fleet.ts';

/**
 * A service that asks for what cannot be gets one verdict: JSON and files are refused with its words, and with kubectl it is in Ready. What the
 * schema alone refuses is in src/rest/agreement.api.test.ts.
 */
const on = servicesInMemory(1);
const UUID = '33333333-3333-4333-8333-333333333333';
const spec = {
  ...{ type: 'external', resource: 'db.example', targetPort: 5432 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};

interface Row {
  name?: string;
  spec?: Record<string, unknown>;
  field: string;
  status?: number;
  reason: string;
}
const NAMES = ['controller', 'router', 'router-internal', 'docker', 'podman', 'kubernetes', 'nats', 'bus'];
const ROWS: Readonly<Record<string, Row>> = {
  ...Object.fromEntries(NAMES.map((name) => [`the name ${name}`, { name, field: 'name', reason: 'ServiceInvalid' }])),
  'a name that begins with a digit': { name: '7days', field: 'name', reason: 'ServiceInvalid' },
  'a path as host': { spec: { resource: 'db/x' }, field: 'resource', reason: 'ServiceInvalid' },
  'no servicePort': { spec: { servicePort: undefined }, field: 'servicePort', reason: 'ServiceInvalid' },
  'no clusterType': { spec: { clusterType: undefined }, field: 'clusterType', reason: 'ServiceInvalid' },
  'a bridge of a host': { spec: { defaultBridge: UUID }, field: 'defaultBridge', reason: 'ServiceInvalid' },
  'no such node': {
    spec: { type: 'agent', resource: 'gateway-9' },
    ...{ field: 'resource', status: 404, reason: 'NodeNotFound' },
  },
  'no such microservice': {
    spec: { type: 'microservice', resource: 'shop/api' },
    ...{ field: 'resource', status: 404, reason: 'MicroserviceNotFound' },
  },
  'a node without a router': {
    spec: { type: 'agent', resource: 'gateway-0' },
    field: 'resource',
    reason: 'RouterNone',
  },
};

describe.each(Object.entries(ROWS))('%s', (_, { name = 'db', spec: more = {}, field, status = 400, reason }) => {
  test('has the verdict of its member over JSON, files and kubectl, in the same words', async () => {
    const members = { ...spec, ...more };
    const json = await on.send('POST', '/services', { name, ...members });
    const document = { kind: 'Service', apiVersion: API_VERSION, metadata: { name }, spec: members };
    const file = await on.fleet.request('POST', '/services/yaml', { token: 'admin', file: document });
    expect(json).toMatchObject({ status, body: { message: expect.stringMatching(new RegExp(`^${field}: `)) } });
    expect([file.status, file.body.code, file.body.message]).toEqual([status, json.body.code, json.body.message]);
    await on.fleet.cluster.client.create(RESOURCES.services, {
      ...{ apiVersion: API_VERSION, kind: 'Service', metadata: { name, namespace: NAMESPACE } },
      spec: JSON.parse(JSON.stringify(members)),
    } as never);
    await on.fleet.settle();
    expect(on.ready(name)).toMatchObject({ status: 'False', reason, message: json.body.message });
    expect(await on.inCluster(name)).toBeUndefined();
  });
});

test.each([
  ['type', { type: 'cluster' }],
  ['defaultBridge', { defaultBridge: UUID }],
  ['bridgePort', { bridgePort: 1 }],
])('%s never changes: a PATCH with another one is 400 by its name, and keeps the service', async (field, change) => {
  expect((await on.send('POST', '/services', { name: 'db', ...spec })).status).toBe(201);
  const { generation } = on.service('db')?.metadata ?? {};
  const answer = await on.send('PATCH', '/services/db', change);
  expect(answer).toMatchObject({ status: 400, body: { message: expect.stringContaining(field) } });
  expect(on.service('db')?.metadata.generation).toBe(generation);
});
