import { mkdtemp, rm } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { API_VERSION, LABELS } from '../src/api/names.ts';
import { ROLE_NAMES, type RoleName } from '../src/rest/access/roles.ts';
import { type ControlPlane, installCrds, startControlPlane } from './control-plane.ts';
import { createKube, type Kube } from './kube.ts';
import { admissionPolicies, CONTROLLER_ACCOUNT, controllerRoles, peopleRoles } from './manifests.ts';
import { waitFor } from './wait.ts';

/**
 * A cluster of its own with two installations, each with groups named as its namespace: the policies would refuse what
 * other tests do in namespaces of theirs.
 */
const NAMESPACES = ['skerry', 'second'] as const;
type Namespace = (typeof NAMESPACES)[number];
let cluster: ControlPlane;
let server: string;
let credentials: RequestOptions;
let admin: Kube;
let dir: string;
const people: Kube[] = [];

/** A person of these groups, or a service account. */
function as(user: string, ...groups: string[]): Kube {
  const headers = {
    ...credentials.headers,
    'impersonate-user': user,
    'impersonate-group': ['system:authenticated', ...groups],
  };
  const kube = createKube(server, { ...credentials, headers });
  people.push(kube);
  return kube;
}
const controllerOf = (namespace: Namespace) => as(`system:serviceaccount:${namespace}:${CONTROLLER_ACCOUNT}`);
const person = (namespace: Namespace, role: RoleName) => as('somebody', `${namespace}:${role}`);

const path = (plural: string, namespace: string) => `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
const verdict = (kube: Kube, method: string, at: string, body?: unknown, type?: string) =>
  kube.request(method, `${at}?dryRun=All`, body, type).then(
    () => 'allowed',
    (error: Error) => error.message,
  );
const object = (kind: string, name: string, spec: object = {}, metadata: object = {}) => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, ...metadata },
  spec,
});
const MERGE = 'application/merge-patch+json';

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'skerry-policies-'));
  cluster = await startControlPlane({ dir });
  const config = new KubeConfig();
  config.loadFromFile(cluster.kubeconfig);
  server = cluster.url;
  credentials = {};
  await config.applyToHTTPSOptions(credentials);
  admin = createKube(server, credentials);
  people.push(admin);
  await installCrds(cluster.kubeconfig);
  for (const namespace of NAMESPACES) {
    await admin.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
    for (const manifest of [...controllerRoles(namespace), ...peopleRoles(namespace, namespace)])
      await admin.apply(manifest as never);
    const create = (plural: string, body: object) => admin.request('POST', path(plural, namespace), body);
    await create('registries', object('Registry', 'remote', { url: 'registry.hub.example', id: 1 }));
    await create('applications', object('Application', 'used', {}, { labels: { [LABELS.inUse]: 'true' } }));
    await create('applications', object('Application', 'free'));
  }
  for (const namespace of NAMESPACES) {
    for (const manifest of admissionPolicies(namespace)) await admin.apply(manifest as never);
    // Policies act some time after they are stored; the last one in the list is the last to act.
    const acts = async () => (await verdict(admin, 'DELETE', `${path('registries', namespace)}/remote`)) !== 'allowed';
    await waitFor(acts, { what: 'the policies to act' });
  }
});
afterAll(async () => {
  for (const kube of people) kube.close();
  await cluster?.stop();
  await rm(dir, { recursive: true, force: true });
});

describe.each(NAMESPACES)('with two installations in one cluster, in the namespace %s', (namespace) => {
  const other = NAMESPACES.find((each) => each !== namespace) as Namespace;

  test('a developer creates and deletes objects', async () => {
    const kube = person(namespace, 'developer');
    expect(await verdict(kube, 'POST', path('applications', namespace), object('Application', 'a'))).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('applications', namespace)}/free`)).toBe('allowed');
  });

  test('people of the other installation may not even look', async () => {
    for (const role of ROLE_NAMES)
      expect(await verdict(person(other, role), 'GET', path('applications', namespace))).toContain('is forbidden');
  });

  test.each(ROLE_NAMES)('a %s reads events, as kubectl describe does, and writes none', async (role) => {
    const kube = person(namespace, role);
    for (const at of ['/api/v1', '/apis/events.k8s.io/v1'])
      expect(await verdict(kube, 'GET', `${at}/namespaces/${namespace}/events`)).toBe('allowed');
    expect(await verdict(kube, 'POST', `/api/v1/namespaces/${namespace}/events`, {})).toContain('is forbidden');
  });

  test('the controller may do what only a controller may', async () => {
    const kube = controllerOf(namespace);
    const system = object('Application', 'router', { isSystem: true });
    expect(await verdict(kube, 'POST', path('applications', namespace), system)).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('registries', namespace)}/remote`)).toBe('allowed');
    expect(await verdict(kube, 'DELETE', `${path('applications', namespace)}/used`)).toBe('allowed');
  });

  test('the controller of the other installation may do nothing', async () => {
    const kube = controllerOf(other);
    for (const [method, at, body] of [
      ['POST', path('applications', namespace), object('Application', 'theirs')],
      ['DELETE', `${path('registries', namespace)}/remote`],
      ['GET', path('registries', namespace)],
    ] as const)
      expect(await verdict(kube, method, at, body)).toContain('is forbidden');
  });
});

test.each([
  [
    'an object where no controller works is refused, and told where one does',
    'POST',
    path('applications', 'default'),
    object('Application', 'there'),
    /belong into a namespace where a controller works, such as (skerry|second)/,
  ],
  ['deleting what is in use is refused', 'DELETE', `${path('applications', 'skerry')}/used`, undefined, /it is in use/],
  [
    'a user cannot make a system application',
    'POST',
    path('applications', 'skerry'),
    object('Application', 'sys', { isSystem: true }),
    /controller alone/,
  ],
  [
    'a user cannot make a system node',
    'POST',
    path('edgenodes', 'skerry'),
    object('EdgeNode', 'sys', { isSystem: true }),
    /controller alone/,
  ],
  [
    'a built-in registry cannot be deleted',
    'DELETE',
    `${path('registries', 'skerry')}/remote`,
    undefined,
    /cannot be changed or deleted/,
  ],
])('%s', async (_, method, at, body, expected) => {
  expect(await verdict(admin, method, at, body)).toMatch(expected);
});

test('a built-in registry cannot be changed, but its labels can', async () => {
  const at = `${path('registries', 'skerry')}/remote`;
  expect(await verdict(admin, 'PATCH', at, { spec: { url: 'elsewhere.example' } }, MERGE)).toContain(
    'cannot be changed or deleted',
  );
  expect(await verdict(admin, 'PATCH', at, { metadata: { labels: { team: 'a' } } }, MERGE)).toBe('allowed');
});
