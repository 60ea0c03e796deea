import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { kubeFromFile, withToken } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { waitFor } from '../../../hack/wait.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { API_VERSION, LABELS } from '../../api/names.ts';
import { applyPolicies, clientOf, MERGE, verdict } from '../../assembly/_system-cluster.ts';
import { CONTROLLER_ACCOUNT, controllerRoles, namespaceManifests } from '../../manifests/roles.ts';
import { startTestCluster } from '../../rest/_cluster.ts';
import { entryWithBus } from './_fleet.ts';

/** What kubectl says about the deletion of accounts and users of the message bus that an application asks for. */
const kube = await kubeFromFile(inject('kubeconfig'));
const cluster = await startTestCluster();
const { namespace } = cluster;
await applyPolicies(kube, namespace, ['skerry-in-use', 'skerry-bus-of-system']);
const { client } = await cluster.startController({ BUS_ENABLED: 'true' }, { kubeconfigFile: await ofController() });
const rest = client.as(await cluster.token('admin'));
const developer = await clientOf(kube, cluster, 'developer');
afterAll(() => {
  for (const each of [kube, developer]) each.close();
});

/** The kubeconfig of the controller's own account, which policies know: to them the cluster admin is a user. */
async function ofController(): Promise<string> {
  for (const manifest of [...namespaceManifests(namespace), ...controllerRoles(namespace)])
    if (manifest.kind !== 'Namespace') await kube.apply(manifest as never);
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } };
  const account = `/api/v1/namespaces/${namespace}/serviceaccounts/${CONTROLLER_ACCOUNT}/token`;
  const { status } = await kube.request<{ status: { token: string } }>('POST', account, body);
  const file = join(temporaryFolder(), 'kubeconfig');
  writeFileSync(file, withToken(readFileSync(inject('kubeconfig'), 'utf8'), status.token));
  return file;
}

const timeout = 30_000;
const at = (plural: string, name: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}/${name}`;
type Metadata = { name: string; labels?: Record<string, string> };
/** The object of a kind with this v3 name. */
async function found(plural: string, name: string): Promise<Metadata | undefined> {
  const path = `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
  const list = await kube.get<{ items: { metadata: Metadata; spec: { name?: string } }[] }>(path);
  return list?.items.find(({ metadata, spec }) => (spec.name ?? metadata.name) === name)?.metadata;
}
const account = () => found('busaccounts', 'shop');
const user = (name: string) => found('bususers', name);
const isInUse = async (metadata: Promise<Metadata | undefined>) => (await metadata)?.labels?.[LABELS.inUse];

beforeAll(async () => {
  const node = { json: { name: 'gateway-0', archId: 1 } };
  await waitFor(async () => (await rest.post('/node', node)).status === 201, { what: 'the controller to be ready' });
  const shop = { name: 'shop', busConfig: { busAccess: true }, microservices: [entryWithBus('pump')] };
  expect((await rest.post('/application', { json: shop })).status).toBe(201);
  const areInUse = async () => (await isInUse(account())) === 'true' && (await isInUse(user('pump'))) === 'true';
  await waitFor(areInUse, { what: 'the account and the user to be in use' });
});

test('the account of an application with access is not deleted: kubectl names the application', async () => {
  const path = at('busaccounts', (await account())?.name ?? '');
  expect(await verdict(developer, 'DELETE', path)).toMatch(/bus account shop is used by application shop/);
});

test('the user of a microservice with access is not deleted: kubectl names the microservice', async () => {
  const path = at('bususers', (await user('pump'))?.name ?? '');
  // Whichever of two policies refuses first.
  expect(await verdict(developer, 'DELETE', path)).toMatch(
    /bus user shop\/pump is used by microservice shop\/pump|busConfig of an application says which/,
  );
  // The cluster admin gets the words of either policy as well.
  expect(await verdict(kube, 'DELETE', path)).toMatch(/shop\/pump|busConfig/);
});

test('a further user of the account is deleted, since nothing asks for it', async () => {
  expect((await rest.post('/bus/accounts/shop/users', { json: { name: 'dashboard' } })).status).toBe(201);
  await developer.request('DELETE', at('bususers', (await user('dashboard'))?.name ?? ''));
  await expect.poll(() => user('dashboard'), { timeout }).toBeUndefined();
});

test('account and user end once the application asks for them no longer', async () => {
  const body = { spec: { busConfig: { busAccess: false } } };
  await kube.request('PATCH', at('applications', 'shop'), body, MERGE);
  await expect.poll(() => Promise.all([account(), user('pump')]), { timeout }).toEqual([undefined, undefined]);
});
