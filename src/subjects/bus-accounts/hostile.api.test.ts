import { afterAll, expect, inject, test } from 'vitest';
import { kubeFromFile } from '../../../hack/kube.ts';
import type {} from '../../../hack/testing/provided.ts';
import { API_VERSION } from '../../api/names.ts';
import { applyPolicies, clientOf, MERGE, verdict } from '../../assembly/_system-cluster.ts';
import { startTestCluster } from '../../rest/_cluster.ts';

/** What users may write of accounts and users of the message bus with kubectl: nothing that belongs to the system. */
const kube = await kubeFromFile(inject('kubeconfig'));
const cluster = await startTestCluster();
const { namespace } = cluster;

const at = (plural: string, name = '') => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}${name && `/${name}`}`;
const object = (kind: string, name: string, spec: object) => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name },
  spec,
});
const MICROSERVICE = '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a72';
const OF_SYSTEM = [
  ['an account of the system', 'busaccounts', 'BusAccount', { name: 'SYS', system: 'system' }],
  ['an account of a leaf server', 'busaccounts', 'BusAccount', { name: 'SYS-leaf-gw', system: 'leaf', node: 'gw' }],
  ['a user of the account of the servers', 'bususers', 'BusUser', { account: 'SYS', name: 'me' }],
  ['a user of the account of a leaf server', 'bususers', 'BusUser', { account: 'SYS-leaf-gw', name: 'me' }],
  ['a user of the account of the controller', 'bususers', 'BusUser', { account: 'controller', name: 'me' }],
  ['a user of the server of a node', 'bususers', 'BusUser', { account: 'shop', name: 'me', node: 'gw' }],
  ['a user of a microservice', 'bususers', 'BusUser', { account: 'shop', microserviceUuid: MICROSERVICE }],
] as const;
const nameOf = (what: string) => what.replaceAll(' ', '-');
for (const [what, plural, kind, spec] of OF_SYSTEM)
  await kube.request('POST', at(plural), object(kind, nameOf(what), spec));
await applyPolicies(kube, namespace, ['skerry-bus-of-system', 'skerry-bus-operator']);
const users = { developer: await clientOf(kube, cluster, 'developer'), admin: await clientOf(kube, cluster, 'admin') };
afterAll(() => {
  for (const client of [kube, ...Object.values(users)]) client.close();
});

const timeout = 30_000;
const REFUSED = /by the controller alone/;

test.each(OF_SYSTEM)('nobody creates, changes or deletes %s', async (what, plural, kind, spec) => {
  for (const user of Object.values(users)) {
    await expect
      .poll(() => verdict(user, 'POST', at(plural), object(kind, 'another', spec)), { timeout })
      .toMatch(REFUSED);
    const path = at(plural, nameOf(what));
    expect(await verdict(user, 'PATCH', path, { spec: { rule: 'other' } }, MERGE)).toMatch(REFUSED);
    expect(await verdict(user, 'DELETE', path)).toMatch(REFUSED);
  }
});

test('a developer creates, changes and deletes accounts of applications and further users of them', async () => {
  for (const [plural, kind, spec] of [
    ['busaccounts', 'BusAccount', { application: 'shop' }],
    ['bususers', 'BusUser', { account: 'shop' }],
  ] as const) {
    await users.developer.request('POST', at(plural), object(kind, 'mine', spec));
    expect(await verdict(users.developer, 'PATCH', at(plural, 'mine'), { spec: { rule: 'other' } }, MERGE)).toBe(
      'allowed',
    );
    expect(await verdict(users.developer, 'DELETE', at(plural, 'mine'))).toBe('allowed');
    expect(await verdict(users.developer, 'PATCH', at(plural, 'mine'), { spec: { node: 'gw' } }, MERGE)).not.toBe(
      'allowed',
    );
  }
});

test('nobody deletes the operator, an admin rotates it, and a developer only reads it', async () => {
  const path = at('busoperators', 'bus-operator');
  await kube.request('POST', at('busoperators'), object('BusOperator', 'bus-operator', {}));
  const rotate = (user: 'developer' | 'admin') => verdict(users[user], 'PATCH', path, { spec: { rotation: 1 } }, MERGE);
  await expect.poll(() => verdict(users.admin, 'DELETE', path), { timeout }).toMatch(/raise spec.rotation/);
  expect(await rotate('admin')).toBe('allowed');
  expect(await rotate('developer')).toMatch(/forbidden/);
  expect(await verdict(users.developer, 'GET', path)).toBe('allowed');
});
