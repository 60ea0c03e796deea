import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { type ControlPlane, installCrds, startControlPlane } from './control-plane.ts';
import { type Kube, kubeFromFile } from './kube.ts';
import { waitFor } from './wait.ts';

const dir = temporaryFolder();
let cluster: ControlPlane;
let kube: Kube;

const configMap = (name: string, rest: object = {}) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, ...rest },
});
const configMapPath = (name: string) => `/api/v1/namespaces/skerry/configmaps/${name}`;

beforeAll(async () => {
  cluster = await startControlPlane({ dir });
  kube = await kubeFromFile(cluster.kubeconfig);
});

afterAll(async () => {
  kube?.close();
  await cluster?.stop();
});

test('the context of the kubeconfig names our namespace, and the namespace exists', async () => {
  expect(kube.namespace).toBe('skerry');
  expect(await kube.get('/api/v1/namespaces/skerry')).toMatchObject({ status: { phase: 'Active' } });
});

test('TokenReview accepts a token of a service account for its audience, and RBAC limits it', async () => {
  const { status } = await kube.request<{ status: { token: string } }>(
    'POST',
    '/api/v1/namespaces/skerry/serviceaccounts/default/token',
    { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { audiences: ['skerry'] } },
  );
  const review = await kube.request<{ status: { authenticated: boolean; user: { username: string } } }>(
    'POST',
    '/apis/authentication.k8s.io/v1/tokenreviews',
    {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token: status.token, audiences: ['skerry'] },
    },
  );
  expect(review.status).toMatchObject({
    authenticated: true,
    user: { username: 'system:serviceaccount:skerry:default' },
  });

  const access = await kube.request<{ status: { allowed: boolean } }>(
    'POST',
    '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: { user: review.status.user.username, resourceAttributes: { verb: 'list', resource: 'secrets' } },
    },
  );
  expect(access.status.allowed).toBe(false);
});

test('objects of a deleted owner are garbage-collected', async () => {
  const owner = (await kube.apply(configMap('owner'))) as unknown as { metadata: { uid: string } };
  await kube.apply(
    configMap('owned', {
      ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: owner.metadata.uid }],
    }),
  );
  await kube.request('DELETE', configMapPath('owner'));
  await waitFor(async () => (await kube.get(configMapPath('owned'))) === undefined, { what: 'the owned object to go' });
});

test('a CRD is served as soon as installCrds returns', async () => {
  const names = await installCrds(cluster.kubeconfig, join(import.meta.dirname, 'testing/testdata'));
  expect(names).toEqual(['boats.test.skerry.dev']);
  const boat = { apiVersion: 'test.skerry.dev/v1', kind: 'Boat', metadata: { name: 'dinghy' }, spec: { oars: 2 } };
  expect(await kube.apply(boat)).toMatchObject({ spec: { oars: 2 } });
});

test('data and address stay the same over a restart and a crash of the API server', async () => {
  await kube.apply(configMap('kept'));
  const before = cluster.pids();
  await cluster.restartApiServer();
  expect(await kube.get(configMapPath('kept'))).toBeDefined();
  await cluster.killApiServer();
  expect(cluster.pids().apiServer).toBeUndefined();
  await expect(kube.get(configMapPath('kept'))).rejects.toThrow();
  await cluster.startApiServer();
  expect(await kube.get(configMapPath('kept'))).toBeDefined();
  expect(cluster.pids().apiServer).not.toBe(before.apiServer);
  expect(cluster.pids().etcd).toBe(before.etcd);
});

test('a later start in the same folder continues with the data', async () => {
  await kube.apply(configMap('stays'));
  await cluster.stop();
  cluster = await startControlPlane({ dir });
  expect(await kube.get(configMapPath('stays'))).toBeDefined();
});
