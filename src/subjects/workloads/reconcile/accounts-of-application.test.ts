import { afterAll, expect, test } from 'vitest';
import { applicationBody, NAMESPACE, startInMemoryController } from '../../../../testing/in-memory-controller.ts';
import { manifest } from '../../../../testing/manifest.ts';
import { ANNOTATIONS, API_VERSION } from '../../../api/names.ts';
import type { ServiceAccount } from '../../../api/v3/index.ts';

/** What becomes of service accounts when their application is deleted, with all reconcilers over an API server in memory. */
const fleet = await startInMemoryController(4);
afterAll(() => fleet[Symbol.asyncDispose]());

const ref = (name: string) => ({ name, namespace: NAMESPACE });
const stored = (name: string) => fleet.stores.serviceAccounts.get(NAMESPACE, name);
const readyOf = (name: string) => stored(name)?.status?.conditions?.find(({ type }) => type === 'Ready')?.reason;
const deleteApplication = async (name: string) => {
  await fleet.cluster.client.delete(fleet.stores.applications.resource, ref(name));
  await fleet.settle();
};

async function make(name: string, applicationName: string, metadata: object = {}) {
  const spec = { name: 'part-0', applicationName, roleRef: { name: 'agent-admin' } };
  const account = { apiVersion: API_VERSION, kind: 'ServiceAccount', metadata: { ...ref(name), ...metadata }, spec };
  await fleet.cluster.client.create(fleet.stores.serviceAccounts.resource, account as ServiceAccount);
  await fleet.settle();
}

test('an account goes with its application, also while nodes have not removed the containers', async () => {
  const { report, settle, node, stores } = fleet;
  await deleteApplication('line-0');
  expect(stores.applications.get(NAMESPACE, 'line-0')?.metadata.deletionTimestamp).toBeDefined();
  expect(stored('account-0')).toBeUndefined();
  // This one is for the next application of the name.
  await make('next', 'line-0', { creationTimestamp: new Date(Date.now() + 5_000).toISOString() });
  expect(readyOf('next')).toBe('ApplicationNotFound');
  report(node(0));
  await settle();
  expect(stores.applications.get(NAMESPACE, 'line-0')).toBeUndefined();
  expect(readyOf('next')).toBe('ApplicationNotFound');
  expect(await fleet.rest('POST', '/application', applicationBody('line-0', fleet.spare))).toBe(201);
  await settle();
  expect(readyOf('next')).toBe('Usable');
});

test('an account of an application that does not exist stays', async () => {
  await make('early', 'line-9');
  await deleteApplication('line-1');
  expect(readyOf('early')).toBe('ApplicationNotFound');
});

test('a younger application of the same name takes no account with it', async () => {
  const { client } = fleet.cluster;
  const metadata = ref('line-2-again');
  const spec = { name: 'line-2', microservices: [] };
  await client.create(fleet.stores.applications.resource, manifest('Application', metadata, spec) as never);
  await fleet.settle();
  await deleteApplication('line-2-again');
  expect(fleet.stores.applications.get(NAMESPACE, 'line-2-again')).toBeUndefined();
  expect(readyOf('account-2')).toBe('Usable');
});

test('a protected account outlives its application', async () => {
  fleet.cluster.edit(stored('account-3') as ServiceAccount, ({ metadata }) => {
    metadata.annotations = { [ANNOTATIONS.protected]: 'true' };
  });
  await deleteApplication('line-3');
  expect(stored('account-3')?.metadata.deletionTimestamp).toBeUndefined();
  expect(readyOf('account-3')).toBe('ApplicationNotFound');
});

test('no account is left once REST has answered that an application is deleted', async () => {
  expect(await fleet.rest('POST', '/application', { name: 'brief', microservices: [] })).toBe(201);
  const body = { name: 'reader', applicationName: 'brief', roleRef: { name: 'microservice' } };
  expect(await fleet.rest('POST', '/serviceaccounts', body)).toBe(201);
  expect(await fleet.rest('DELETE', '/application/brief')).toBe(204);
  expect(await fleet.rest('GET', '/serviceaccounts/brief/reader')).toBe(404);
  expect(await fleet.rest('POST', '/serviceaccounts', body)).toBe(404);
});
