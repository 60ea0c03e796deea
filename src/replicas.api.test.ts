import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { type Kube, kubeFromFile } from '../hack/kube.ts';
import { testConfig } from '../testing/test-config.ts';
import { type App, createApp } from './app.ts';
import { routes } from './assembly/routes.ts';
import { createTestClient, type TestClient } from './rest/_client.ts';
import { createLog } from './telemetry/log.ts';

/** Two replicas of a complete controller with a real API server, as REST shows them and what they record. */
const namespace = `two-${randomUUID().slice(0, 8)}`;
const all = new AsyncDisposableStack();
let kube: Kube;
let token: string;
afterAll(() => all.disposeAsync());

beforeAll(async () => {
  kube = await kubeFromFile(inject('kubeconfig'));
  all.defer(() => kube.close());
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  await kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'ann', namespace } });
  await kube.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'ann', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ kind: 'ServiceAccount', name: 'ann', namespace }],
  } as never);
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/ann/token`;
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['skerry'] } };
  token = (await kube.request<{ status: { token: string } }>('POST', path, body)).status.token;
});

async function start(name: string): Promise<{ app: App; client: TestClient }> {
  const config = testConfig(inject('kubeconfig'), namespace, { CONTROLLER_NAME: name });
  const app = all.use(await createApp(config, { log: createLog({ level: 'silent', name: 'test' }) }));
  await app.start();
  const client = createTestClient(`http://127.0.0.1:${app.addresses.rest}`, routes, token);
  await expect.poll(async () => (await client.get('/node-list')).status, { timeout: 20_000 }).toBe(200);
  return { app, client };
}

test('two replicas show each other, and the one that ends as inactive; both show what either recorded', async () => {
  const [one, other] = [await start('one'), await start('other')];
  const active = async ({ client }: typeof one) => (await client.get('/cluster/controllers')).body;
  await expect.poll(async () => (await active(one)).length).toBe(2);
  const seen = await active(one);
  expect(await active(other)).toMatchObject(seen.map(({ uuid, host }: Record<string, string>) => ({ uuid, host })));

  const { uuid } = (await other.client.post('/node', { json: { name: 'gw' } })).body;
  await other.app.drain(1_000);
  await other.app[Symbol.asyncDispose]();
  await expect.poll(async () => (await active(one)).length).toBe(1);
  const former = (await one.client.get('/cluster/controllers?includeInactive=true')).body;
  expect(former.map(({ isActive }: { isActive: boolean }) => isActive).sort()).toEqual([false, true]);
  const { body } = await one.client.get('/events?resourceType=edgenodes');
  expect(body.events).toMatchObject([{ actorId: `system:serviceaccount:${namespace}:ann`, resourceId: uuid }]);
});
