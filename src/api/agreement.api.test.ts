import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { KubeError, kubeFromFile } from '../../hack/kube.ts';
import { manifest } from '../../testing/manifest.ts';
import { agreementTables } from './_agreement.ts';
import { readSpec } from './_read-spec.ts';
import type { ResourceDefinition } from './meta.ts';
import { API_VERSION } from './names.ts';
import { fullEntry } from './v3/_application.cases.ts';
import { passwordRule } from './v3/index.ts';

/**
 * Single source, shown and not hoped: each table of documents runs against zod and against the CRD on a real API
 * server. Both must give the same verdict, and for what they accept the same normal form.
 */
const tables = await agreementTables();

const UUID2 = '11111111-2222-4333-8444-555555555555';

const kube = await kubeFromFile(inject('kubeconfig'));
afterAll(() => kube.close());

/** What the API server would store, or undefined when it refuses the document. */
async function throughApiServer(
  kind: ResourceDefinition,
  spec: unknown,
): Promise<{ spec?: unknown; refusal?: string }> {
  const path = `/apis/${API_VERSION}/namespaces/default/${kind.plural}?dryRun=All&fieldValidation=Strict`;
  const object = { apiVersion: API_VERSION, kind: kind.kind, metadata: { name: 'agreement' }, spec };
  try {
    return { spec: (await kube.request<{ spec: unknown }>('POST', path, object)).spec };
  } catch (error) {
    if (error instanceof KubeError && (error.status === 422 || error.status === 400)) return { refusal: error.message };
    throw error;
  }
}

describe('the API server refuses changes of an identity with the message of the rule', () => {
  const path = `/apis/${API_VERSION}/namespaces/default/applications`;
  const spec = { name: 'plant', uuid: fullEntry.uuid, id: 7, microservices: [{ name: 'web', uuid: fullEntry.uuid }] };
  const change = (fields: object) =>
    kube.request('PATCH', `${path}/identity`, { spec: fields }, 'application/merge-patch+json').then(
      () => 'accepted',
      (error: Error) => error.message,
    );
  beforeAll(async () => {
    await kube.request('POST', path, manifest('Application', { name: 'identity' }, spec));
  });
  test.each([
    ['another uuid', { uuid: UUID2 }, 'spec.uuid: Invalid value'],
    ['another uuid', { uuid: UUID2 }, 'uuid is immutable'],
    ['the removal of the uuid while no status records it', { uuid: null }, 'uuid is immutable'],
    ['another id', { id: 8 }, 'id is immutable'],
    ['another name', { name: 'plant-b' }, 'name is immutable'],
    ['the removal of the name', { name: null }, 'name is immutable'],
    ['another uuid of an entry', { microservices: [{ name: 'web', uuid: UUID2 }] }, 'uuid is immutable once set'],
    ['another description', { description: 'changed' }, 'accepted'],
    ['one more entry', { microservices: [...spec.microservices, { name: 'db' }] }, 'accepted'],
  ])('%s', async (_, fields, expected) => {
    expect(await change(fields)).toContain(expected);
  });
});

test('the API server refuses an Application with the name that machines use for their own microservices', async () => {
  const path = `/apis/${API_VERSION}/namespaces/default/applications?dryRun=All`;
  const create = (name: string) => kube.request('POST', path, manifest('Application', { name }, {}));
  await expect(create('skerry-agent')).rejects.toThrow(/skerry-agent is reserved/);
  await create('skerry-agents');
});

describe('the API server refuses another destination for a stored password with the message of the rule', () => {
  const path = `/apis/${API_VERSION}/namespaces/default/registries`;
  const spec = { url: 'reg.example', ca: 'QQ==', passwordSecretRef: { name: 'pull', key: 'one' } };
  const patch = (fields: object, query = '') =>
    kube.request('PATCH', `${path}/destination${query}`, { spec: fields }, 'application/merge-patch+json').then(
      () => 'accepted',
      (error: Error) => error.message,
    );
  beforeAll(async () => {
    const metadata = { name: 'destination' };
    await kube.request('POST', path, { apiVersion: API_VERSION, kind: 'Registry', metadata, spec });
  });
  const refused = passwordRule.message;
  test.each([
    ['another host', { url: 'evil.example' }, refused],
    ['another port', { url: 'reg.example:5000' }, refused],
    ['a longer host', { url: 'reg.example.org' }, refused],
    ['plain HTTP', { url: 'HTTP://reg.example' }, refused],
    ['unchecked certificates', { insecure: true }, refused],
    ['another CA', { ca: 'Qg==' }, refused],
    ['the removal of the CA', { ca: null }, 'accepted'],
    ['another spelling of the host', { url: 'https://Reg.Example/v2/x' }, 'accepted'],
    ['another user', { username: 'ann' }, 'accepted'],
    ['another host without a password', { url: 'evil.example', passwordSecretRef: null }, 'accepted'],
    ['another host with another password', { url: 'evil.example', passwordSecretRef: { key: 'two' } }, 'accepted'],
  ])('%s', async (_, fields, expected) => {
    expect(await patch(fields, '?dryRun=All')).toContain(expected);
  });
});

describe.each(tables)('$kind', (kind, cases) => {
  test.each(cases)('$name: zod and the API server agree that accepted is $accepted', async ({ spec, accepted }) => {
    const here = readSpec(kind, spec);
    const there = await throughApiServer(kind, spec);
    expect({ accepted: here.success, by: 'zod', why: here.error?.message }).toMatchObject({ accepted });
    expect({ accepted: there.refusal === undefined, by: 'API server', why: there.refusal }).toMatchObject({ accepted });
    if (accepted) expect(here.data).toEqual(there.spec);
  });
});
