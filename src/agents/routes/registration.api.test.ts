import { expect, test } from 'vitest';
import { waitFor } from '../../../hack/wait.ts';
import type { Application } from '../../api/v3/index.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { BASE } from '../../rest/contract/base.ts';
import { RESOURCES } from '../../subjects/kinds.ts';
import { makeKey, makeToken } from '../_util.ts';

/** Two replicas of a controller on control plane remote, with a real API server. */
const cluster = await startTestCluster();
const remote = { CONTROL_PLANE: 'remote' };
const replicas = [await cluster.startController(remote), await cluster.startController(remote)] as const;
const [admin, sre, developer] = [
  replicas[0].client.as(await cluster.token('admin')),
  replicas[0].client.as(await cluster.token('sre')),
  replicas[1].client.as(await cluster.token('developer')),
];
for (const client of [admin, developer])
  await waitFor(async () => (await client.get('/node-list')).status === 200, {
    what: 'a replica to serve',
    timeoutMs: 20_000,
  });

const UUID = '0d9e6f2a-3c4b-4d5e-8f60-718293a4b5c6';
const BODY = {
  uuid: UUID,
  images: [{ containerImage: 'registry.example/controller:1', archId: 1 }],
  registryId: 2,
  isPrivileged: true,
};
const ref = { namespace: cluster.namespace, name: 'system-hub-1' };
const application = () => cluster.kube.find(RESOURCES.applications, ref) as Promise<Application | undefined>;

async function join(name: string, spec: object) {
  const { status, body } = await admin.post('/node', { json: { name, archId: 1, ...spec } });
  expect(status).toBe(201);
  const { key: provisioningKey } = (await admin.get(`/node/${body.uuid}/provisioning-key`)).body;
  const key = makeKey();
  const send = (path: string, json: unknown, at: 0 | 1 = 0, headers: Record<string, string> = {}) =>
    fetch(`${replicas[at].url}${BASE}/agent${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body: JSON.stringify(json),
    });
  expect((await send('/provision', { key: provisioningKey, type: 1, publicKey: key.publicKey })).status).toBe(200);
  const register = async (json: unknown, at: 0 | 1 = 0) => {
    const authorization = `Bearer ${makeToken(body.uuid, key, Date.now())}`;
    const answer = await send('/controller/register', json, at, { authorization });
    return { status: answer.status, body: await answer.json() };
  };
  const leave = () =>
    fetch(`${replicas[0].url}${BASE}/agent/delete-node`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${makeToken(body.uuid, key, Date.now())}` },
    });
  return { uuid: body.uuid as string, register, leave };
}
let hub: Awaited<ReturnType<typeof join>>;

test('a node of the system is created by an admin alone, and shows an interior router and a bus server', async () => {
  const json = { name: 'hub-0', isSystem: true };
  for (const client of [sre, developer]) expect((await client.post('/node', { json })).status).toBe(403);
  expect(await admin.post('/node', { json: { ...json, busMode: 'leaf' } })).toMatchObject({
    status: 400,
    body: { message: expect.stringMatching(/^busMode: "leaf"; must be "server"/) },
  });
  const { body } = await admin.post('/node', { json });
  expect((await admin.get(`/node/${body.uuid}`)).body).toMatchObject({
    isSystem: true,
    routerMode: 'interior',
    busMode: 'server',
  });
  expect((await admin.patch(`/node/${body.uuid}`, { json: { isSystem: false } })).status).toBe(400);
  expect((await admin.get('/network-topology/summary')).body).toMatchObject({
    controlPlane: 'remote',
    bus: { byRole: { server: 1 } },
  });
});

test('a controller is registered at two replicas at once, beside a debug shell that begins and ends', async () => {
  hub = await join('hub-1', { isSystem: true });
  const { uuid, register } = hub;
  // Each replica learns of the node, its key and the debug shell in its own time.
  await expect.poll(async () => (await register({}, 1)).status, { timeout: 20_000 }).toBe(400);
  const [one, other, shell] = await Promise.all([
    register(BODY, 0),
    register(BODY, 1),
    admin.post(`/node/${uuid}/exec`, { json: {} }),
  ]);
  expect([one, other, shell.status]).toEqual([
    { status: 200, body: { uuid: UUID } },
    { status: 200, body: { uuid: UUID } },
    204,
  ]);
  const names = async () => (await application())?.spec.microservices?.map(({ name }) => name).sort();
  expect(await names()).toEqual(['controller', 'debug']);
  const { generation } = (await application())?.metadata ?? {};
  expect((await register({ ...BODY, schedule: 3 }, 1)).status).toBe(200);
  expect((await application())?.metadata.generation).toBe(generation);
  expect((await sre.delete(`/node/${uuid}/exec`)).status).toBe(204);
  await expect.poll(names, { timeout: 20_000 }).toEqual(['controller']);
});

test('users neither change nor delete a registered controller, and may order its rebuild', async () => {
  await expect
    .poll(async () => (await admin.get(`/microservices/system/${UUID}`)).status, { timeout: 20_000 })
    .toBe(200);
  const system = `/microservices/system/${UUID}`;
  const update = { status: 400, body: { code: 'SYSTEM_MICROSERVICE_UPDATE' } };
  for (const [path, json] of [
    [system, { isPrivileged: false }],
    [system, { logSize: 50 }],
    [`/microservices/${UUID}`, { logSize: 50 }],
    [`${system}/config`, { a: 1 }],
  ] as const)
    expect(await admin.patch(path, { json })).toMatchObject(update);
  expect(await admin.post(`${system}/port-mapping`, { json: { internal: 80, external: 80 } })).toMatchObject(update);
  const deletion = { status: 403, body: { code: 'SYSTEM_MICROSERVICE_DELETE' } };
  expect(await admin.delete(`/microservices/${UUID}`)).toMatchObject(deletion);
  expect(await admin.delete('/application/system/system-hub-1')).toMatchObject(deletion);
  expect((await admin.patch(`${system}/rebuild`)).status).toBe(204);
  expect((await application())?.spec.microservices).toMatchObject([{ name: 'controller', schedule: 0 }]);
});

test('a registered controller ends with its node, and so does its application', async () => {
  expect((await admin.delete(`/node/${hub.uuid}`)).status).toBe(202);
  expect(await admin.delete('/application/system/system-hub-1')).toMatchObject({ status: 403 });
  await expect.poll(async () => (await hub.leave()).status, { timeout: 20_000 }).toBe(204);
  await expect.poll(application, { timeout: 20_000 }).toBeUndefined();
});

test('on control plane kubernetes nodes of the system are refused, and one from a manifest says why', async () => {
  const other = await startTestCluster();
  const { client } = await other.startController();
  const user = client.as(await other.token('admin'));
  await expect.poll(async () => (await user.get('/node-list')).status, { timeout: 20_000 }).toBe(200);
  expect(await user.post('/node', { json: { name: 'hub', isSystem: true } })).toMatchObject({
    status: 400,
    body: { message: expect.stringMatching(/^isSystem: true; .*control plane remote/) },
  });
  await other.kube.create(RESOURCES.nodes, {
    apiVersion: 'skerry.dev/v3',
    kind: 'EdgeNode',
    metadata: { name: 'hub', namespace: other.namespace },
    spec: { isSystem: true },
  });
  const refused = async () => {
    const node = await other.kube.find(RESOURCES.nodes, { namespace: other.namespace, name: 'hub' });
    return node?.status?.conditions?.find(({ type }) => type === 'SettingsRefused');
  };
  await expect.poll(refused, { timeout: 20_000 }).toMatchObject({
    status: 'True',
    reason: 'NotOnControlPlane',
    message: expect.stringMatching(/^isSystem: nodes of the system exist on control plane remote alone/),
  });
});
