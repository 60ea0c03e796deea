import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, inject, test } from 'vitest';
import { findTools } from '../../hack/binaries.ts';
import { kubeFromFile } from '../../hack/kube.ts';
import type {} from '../../hack/testing/provided.ts';
import { waitFor } from '../../hack/wait.ts';
import { ANNOTATIONS } from '../api/names.ts';
import { createKindController } from '../controllers/kind.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import type { Resource } from '../kube/mod.ts';
import { startTestCluster } from '../rest/_cluster.ts';
import { CORE_KINDS } from '../subjects/content/kinds/core-objects.ts';
import { createCoreObjectController } from '../subjects/content/reconcile/core-objects.ts';
import { KINDS } from '../subjects/kinds.ts';
import { applyPolicies } from './_system-cluster.ts';

/** What kubectl says about the deletion of an object in use: the words of REST, with the users. */
const run = promisify(execFile);
const EVERY_KIND = { ...KINDS, ...CORE_KINDS } as unknown as Readonly<Record<string, Kind>>;
/**
 * Kinds that no reference names. Users of a certificate use its Secret (src/subjects/pki/certificates.api.test.ts); accounts and users
 * of the bus exist for an application that names neither (src/subjects/bus-accounts/in-use.api.test.ts).
 */
const WITHOUT_REFERENCES: ReadonlySet<string> = new Set(
  [KINDS.certificates, KINDS.busAccounts, KINDS.busUsers].map(({ key }) => key),
);
const IN_USE = Object.values(EVERY_KIND).filter(({ inUse, key }) => inUse && !WITHOUT_REFERENCES.has(key));

const { kubectl } = await findTools(['kubectl']);
const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());
const cluster = await startTestCluster();
await applyPolicies(kube, cluster.namespace, ['skerry-in-use']);
const replica = await cluster.startReplica();
const admin = replica.client.as(await cluster.token('admin'));
cluster.reconcile(replica, (deps) => [
  ...Object.values(KINDS as unknown as Record<string, Kind>)
    .filter(({ inUse }) => inUse)
    .map((kind) => createKindController(deps, kind)),
  createCoreObjectController(deps, 'secrets'),
  createCoreObjectController(deps, 'configMaps'),
]);
beforeAll(makeObjects);

const expectDone = ({ status, body }: { status: number; body: unknown }) =>
  expect(status, JSON.stringify(body)).toBeLessThan(300);
const post = async (path: string, json: object) => {
  const made = await admin.post(path, { json });
  expectDone(made);
  return made.body;
};

/** An object of every kind that can be in use, called `used`, and an application that uses it. */
async function makeObjects() {
  await post('/node', { name: 'gw', archId: 1 });
  const { id: hub } = await post('/registries', { name: 'hub', url: 'hub.example', type: 'hub' });
  const { id: registryId } = await post('/registries', { name: 'used', url: 'registry.example' });
  const images = [{ archId: 1, containerImage: 'a:1' }];
  const { id: catalogItemId } = await post('/catalog/microservices', { name: 'used', images, registryId });
  await post('/secrets', { name: 'used', type: 'Opaque', data: { a: 'b' } });
  await post('/configmaps', { name: 'used', data: { a: 'b' } });
  await post('/volumeMounts', { name: 'used', secretName: 'used' });
  await post('/runtimeClasses', { name: 'used', handler: 'runc' });
  await post('/certificates/ca', { name: 'used', type: 'self-signed' });
  await post('/certificates', { name: 'tls', subject: 'tls', hosts: 'a', ca: { type: 'direct', secretName: 'used' } });
  for (const path of ['/models', '/knowledge'])
    await post(path, { name: 'used', repo: 'team/x', registryId: hub, files: ['a'] });
  const namespace = cluster.namespace;
  const catalog = { bindPath: '/m', items: [{ name: 'used' }] };
  await cluster.kube.create(KINDS.applications.resource, {
    apiVersion: 'skerry.dev/v3',
    kind: 'Application',
    metadata: { name: 'shop', namespace },
    spec: {
      isActivated: true,
      microservices: [
        {
          name: 'tills',
          agent: { name: 'gw' },
          images: { catalogId: Number(catalogItemId) },
          models: catalog,
          knowledge: { ...catalog, bindPath: '/k' },
          serviceAccount: { roleRef: { name: 'microservice' } },
          container: {
            runtime: 'used',
            env: [{ key: 'SITE', valueFromConfigMap: 'used/a' }],
            volumes: [{ hostDestination: 'used', containerDestination: '/v', accessMode: 'ro', type: 'volumeMount' }],
          },
        },
      ],
    },
  } as never);
  const isThere = async () => (await admin.get('/application/shop')).status === 200;
  await waitFor(isThere, { what: 'the application' });
  await post('/serviceaccounts', { name: 'tills', applicationName: 'shop', roleRef: { name: 'microservice' } });
}

async function objectOf({ key, resource }: Kind): Promise<KindObject> {
  const { items } = await cluster.kube.list<KindObject>(resource as Resource<KindObject>, {
    namespace: cluster.namespace,
  });
  const name = key === 'serviceAccounts' ? 'tills' : 'used';
  const found = items.find(({ metadata, spec }) => metadata.name === name || spec?.name === name);
  if (!found) throw new Error(`no ${key}`);
  return found;
}

const refused = async (kind: Kind, name: string) =>
  run(kubectl, [
    ...['--kubeconfig', inject('kubeconfig'), '--namespace', cluster.namespace],
    ...[
      'delete',
      `${kind.definition.plural}${kind.resource.group ? `.${kind.resource.group}` : ''}`,
      name,
      '--dry-run=server',
    ],
  ]).then(
    ({ stdout }) => stdout,
    ({ stderr }: { stderr: string }) => stderr.replace(/.*denied request: /s, '').trim(),
  );

const ANSWERS: Readonly<Record<string, string>> = {
  registries: 'registry # (used) is used by catalog item used',
  catalogItems: 'catalog item # (used) is used by shop/tills',
  runtimeClasses: 'runtime class used is used by shop/tills',
  models: 'model used is used by shop/tills (#)',
  knowledge: 'knowledge used is used by shop/tills (#)',
  volumeMounts: 'volume mount used is used by shop/tills',
  serviceAccounts: 'service account shop/tills is used by shop/tills',
  certificateAuthorities: 'certificate authority used is used by certificate tls',
  secrets: 'secret used is used by shop/tills',
  configMaps: 'config map used is used by shop/tills',
};

test.each(IN_USE)(
  'kubectl and REST refuse to delete a $noun in use with the same words, which name its users',
  async (kind) => {
    const answer = async () =>
      (await refused(kind, (await objectOf(kind)).metadata.name))
        .replace(/ \d+ \(/, ' # (')
        .replace(/\([0-9a-f-]{36}\)/, '(#)');
    await expect.poll(answer, { timeout: 60_000 }).toBe(ANSWERS[kind.key]);
    const object = await objectOf(kind);
    const path =
      kind.key === 'serviceAccounts' ? 'shop/tills' : kind.rest.key === 'id' ? kind.identity.id?.(object) : 'used';
    const { body } = await admin.delete(`${kind.rest.crud?.path}/${path}`);
    expect(body.message).toBe(object.metadata.annotations?.[ANNOTATIONS.usedBy]);
  },
);
