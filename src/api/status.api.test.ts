import { afterAll, beforeAll, expect, inject, test, vi } from 'vitest';
import { testConfig } from '../../testing/test-config.ts';
import { connect } from '../connection.ts';
import { CRDS, type CustomResourceDefinition } from '../crds.ts';
import { type KubeClient, type KubeObject, type Resource, writeStatus } from '../kube/mod.ts';
import { toCrd } from './crd.ts';
import { FIELD_MANAGERS } from './names.ts';
import { applicationResource } from './v3/application.ts';

/** A CRD of its own, since the test changes it. */
const RESOURCE: Resource<Thing> = {
  group: 'status.test.dev',
  version: 'v3',
  plural: 'applications',
  kind: 'Application',
  namespaced: true,
};
interface Thing extends KubeObject {
  status?: { ready?: string; readyCount?: number; observedGeneration?: number };
}
interface Managed {
  manager: string;
  subresource?: string;
  fieldsV1: object;
}
const name = `${RESOURCE.plural}.${RESOURCE.group}`;
/** A CRD is served a moment after it was written. */
const SOON = { timeout: 10_000, interval: 100 };
const fieldManager = FIELD_MANAGERS.controller;
const ref = { namespace: 'default', name: 'a' };
const managed = ({ metadata }: Thing) => metadata.managedFields as Managed[];
const ofController = (object: Thing) => managed(object).find(({ manager }) => manager === fieldManager);

let client: KubeClient;
/** Creates or replaces the CRD, with the status as it was before it was atomic where `isGranular`. */
async function install(isGranular: boolean): Promise<void> {
  const crd = structuredClone(toCrd(applicationResource)) as unknown as CustomResourceDefinition;
  const spec = crd.spec as { group: string; names: object; versions: { schema: Schema }[] };
  spec.group = RESOURCE.group;
  spec.names = { kind: RESOURCE.kind, plural: RESOURCE.plural };
  if (isGranular) delete spec.versions[0]?.schema.openAPIV3Schema.properties.status['x-kubernetes-map-type'];
  const { resourceVersion } = (await client.find(CRDS, { name }))?.metadata ?? {};
  const metadata = { name, ...(resourceVersion && { resourceVersion }) };
  await client[resourceVersion ? 'replace' : 'create'](CRDS, { ...crd, metadata });
}
interface Schema {
  openAPIV3Schema: { properties: { status: Record<string, unknown> } };
}

beforeAll(async () => {
  client = connect(testConfig(inject('kubeconfig'), 'default'));
});
afterAll(async () => {
  await client.delete(CRDS, { name });
  await client[Symbol.asyncDispose]();
});

test('a status that a former version owned by its members is owned as a whole after a write, and all else stays', async () => {
  await install(true);
  const metadata = { ...ref, labels: { line: '4' } };
  const document = { apiVersion: 'status.test.dev/v3', kind: 'Application', metadata, spec: { description: 'x' } };
  const created = await vi.waitFor(
    () => client.create(RESOURCE, document as Thing, { fieldManager: 'kubectl-create' }),
    SOON,
  );
  const former = { type: 'merge', body: { status: { ready: '1/2', readyCount: 1 } } } as const;
  const before = await client.patch(RESOURCE, ref, former, { fieldManager, subresource: 'status' });
  expect(ofController(before)?.fieldsV1).toHaveProperty(['f:status', 'f:ready']);

  await install(false);
  const after = await vi.waitFor(async () => {
    const known = await client.get(RESOURCE, ref);
    const status = { observedGeneration: 1, ready: `${known.metadata.resourceVersion}/2` };
    const { object } = await writeStatus(client, RESOURCE, known, status, { fieldManager });
    // The API server takes up the new schema a moment later.
    expect(ofController(object)?.fieldsV1).toEqual({ 'f:status': {} });
    return object;
  }, SOON);
  expect(after.status).not.toHaveProperty('readyCount');
  expect(after.spec).toEqual(created.spec);
  expect(after.metadata.labels).toEqual(created.metadata.labels);
  expect(after.metadata.generation).toBe(created.metadata.generation);
  const spec = (object: Thing) => managed(object).find(({ manager }) => manager === 'kubectl-create')?.fieldsV1;
  expect(spec(after)).toEqual(spec(created));
});
