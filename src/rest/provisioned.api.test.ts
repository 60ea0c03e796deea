import { randomUUID } from 'node:crypto';
import { afterAll, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../hack/kube.ts';
import { testConfig } from '../../testing/test-config.ts';
import { makeKey } from '../agents/_util.ts';
import { createApp } from '../app.ts';
import { createLog } from '../telemetry/log.ts';
import { BASE } from './contract/base.ts';

/** A complete controller with a real API server. */
const namespace = `provisioned-${randomUUID().slice(0, 8)}`;
const all = new AsyncDisposableStack();
afterAll(() => all.disposeAsync());

test('a node shows the architecture and the engine of its agent from its provisioning on', async () => {
  const kube = await kubeFromFile(inject('kubeconfig'));
  all.defer(() => kube.close());
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  const account = { kind: 'ServiceAccount', name: 'ann', namespace };
  await kube.apply({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'ann', namespace } });
  await kube.apply({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'RoleBinding',
    metadata: { name: 'ann', namespace },
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [account],
  } as never);
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/ann/token`;
  const request = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['skerry'] } };
  const { status: minted } = await kube.request<{ status: { token: string } }>('POST', path, request);
  const config = testConfig(inject('kubeconfig'), namespace);
  const app = all.use(await createApp(config, { log: createLog({ level: 'silent', name: 'test' }) }));
  await app.start();
  const call = async (method: string, path: string, body?: object) => {
    const answer = await fetch(`http://127.0.0.1:${app.addresses.rest}${BASE}${path}`, {
      method,
      headers: { authorization: `Bearer ${minted.token}`, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    });
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> };
  };
  await expect.poll(async () => (await call('GET', '/node-list')).status, { timeout: 20_000 }).toBe(200);
  const { body: node } = await call('POST', '/node', { name: 'gw', archId: 0 });
  const { body: issued } = await call('GET', `/node/${node.uuid}/provisioning-key`);
  const joining = { key: issued.key, type: 2, engine: 'engine_b', publicKey: makeKey().publicKey };
  expect((await call('POST', '/agent/provision', joining)).status).toBe(200);
  const { body: shown } = await call('GET', `/node/${node.uuid}`);
  expect(shown).toMatchObject({ archId: 2, containerEngine: 'podman' });
});
