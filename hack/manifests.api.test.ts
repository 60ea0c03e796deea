import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { API_VERSION, DEFAULT_NAMESPACE, LABELS } from '../src/api/names.ts';
import { type ControlPlane, installCrds, startControlPlane } from './control-plane.ts';
import { type Kube, kubeFromFile } from './kube.ts';
import { admissionPolicies } from './manifests.ts';
import { waitFor } from './wait.ts';

/** A cluster of its own: the policies would refuse what other tests do in namespaces of theirs. */
let cluster: ControlPlane;
let kube: Kube;
let dir: string;
const path = (plural: string, namespace = DEFAULT_NAMESPACE) =>
  `/apis/${API_VERSION}/namespaces/${namespace}/${plural}`;
const verdict = (method: string, at: string, body?: unknown, type?: string) =>
  kube.request(method, at, body, type).then(
    () => 'allowed',
    (error: Error) => error.message,
  );
const object = (kind: string, name: string, spec: object = {}, labels: Record<string, string> = {}) => ({
  apiVersion: API_VERSION,
  kind,
  metadata: { name, labels },
  spec,
});
const MERGE = 'application/merge-patch+json';

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'skerry-policies-'));
  cluster = await startControlPlane({ dir, namespace: DEFAULT_NAMESPACE });
  kube = await kubeFromFile(cluster.kubeconfig);
  await installCrds(cluster.kubeconfig);
  await kube.request('POST', path('registries'), object('Registry', 'remote', { url: 'registry.hub.example', id: 1 }));
  await kube.request('POST', path('applications'), object('Application', 'used', {}, { [LABELS.inUse]: 'true' }));
  await kube.request('POST', path('applications'), object('Application', 'free'));
  for (const manifest of admissionPolicies(DEFAULT_NAMESPACE)) await kube.apply(manifest as never);
  // Policies act some time after they are stored; the last one in the list is the last to act.
  await waitFor(async () => (await verdict('DELETE', `${path('registries')}/remote?dryRun=All`)) !== 'allowed', {
    what: 'the policies to act',
  });
});
afterAll(async () => {
  kube?.close();
  await cluster?.stop();
  await rm(dir, { recursive: true, force: true });
});

test.each([
  [
    'an object in the namespace of the controller is allowed',
    'POST',
    path('applications'),
    object('Application', 'here'),
    'allowed',
  ],
  [
    'an object where nobody would reconcile it is refused',
    'POST',
    path('applications', 'default'),
    object('Application', 'there'),
    'nobody would reconcile them',
  ],
  ['deleting what is in use is refused', 'DELETE', `${path('applications')}/used`, undefined, 'it is in use'],
  ['deleting what is not in use is allowed', 'DELETE', `${path('applications')}/free`, undefined, 'allowed'],
  [
    'a user cannot make a system application',
    'POST',
    path('applications'),
    object('Application', 'sys', { isSystem: true }),
    'controller alone',
  ],
  [
    'a user cannot make a system node',
    'POST',
    path('edgenodes'),
    object('EdgeNode', 'sys', { isSystem: true }),
    'controller alone',
  ],
  [
    'a built-in registry cannot be deleted',
    'DELETE',
    `${path('registries')}/remote`,
    undefined,
    'cannot be changed or deleted',
  ],
])('%s', async (_, method, at, body, expected) => {
  await expect.poll(() => verdict(method, `${at}?dryRun=All`, body), { timeout: 20_000 }).toContain(expected);
});

test('a built-in registry cannot be changed, but its labels can', async () => {
  expect(
    await verdict('PATCH', `${path('registries')}/remote`, { spec: { url: 'elsewhere.example' } }, MERGE),
  ).toContain('cannot be changed or deleted');
  expect(await verdict('PATCH', `${path('registries')}/remote`, { metadata: { labels: { team: 'a' } } }, MERGE)).toBe(
    'allowed',
  );
});
