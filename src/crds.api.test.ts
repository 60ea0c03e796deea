import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest';
import { testConfig } from '../testing/test-config.ts';
import { CRD_VERSION } from './api/crd.ts';
import { connect } from './connection.ts';
import { applyCrds, CRDS, type CustomResourceDefinition } from './crds.ts';
import type { KubeClient } from './kube/mod.ts';
import { KINDS } from './subjects/kinds.ts';

/** The CRDs of the API server that all tests share; each test leaves them as they were. */
const name = 'models.skerry.dev';
let client: KubeClient;
beforeAll(() => {
  client = connect(testConfig(inject('kubeconfig'), 'default'));
});
afterEach(async () => {
  await applyCrds(client, KINDS, { version: '99.0.0' });
  await unmark();
});
afterAll(async () => {
  await client[Symbol.asyncDispose]();
});

const crd = () => client.get(CRDS, { name });
const columns = async () =>
  ((await crd()).spec as { versions: { additionalPrinterColumns?: unknown[] }[] }).versions[0]
    ?.additionalPrinterColumns;
const patch = (body: object) => client.patch<CustomResourceDefinition>(CRDS, { name }, { type: 'merge', body });
async function unmark() {
  await patch({ metadata: { labels: { team: null } } });
  for (const { metadata } of (await client.list(CRDS)).items)
    if (metadata.annotations?.[CRD_VERSION])
      await client.patch(
        CRDS,
        { name: metadata.name ?? '' },
        { type: 'merge', body: { metadata: { annotations: { [CRD_VERSION]: null } } } },
      );
}
/** As an older version had it: with fewer columns and a label of the user. */
async function age() {
  const { versions } = (await crd()).spec as { versions: object[] };
  const [version] = versions;
  await patch({
    metadata: { labels: { team: 'x' } },
    spec: { versions: [{ ...version, additionalPrinterColumns: [] }] },
  });
}

test('CRDs of an older version become those of this one, and keep what users have put on them', async () => {
  const before = await columns();
  const { uid } = (await crd()).metadata;
  await age();
  expect(await columns()).not.toEqual(before);
  const outcomes = await applyCrds(client, KINDS, { version: '1.0.0' });
  expect(outcomes.get(name)).toBe('updated');
  expect([...outcomes.values()].filter((outcome) => outcome === 'unchanged')).toHaveLength(outcomes.size - 1);
  expect(await columns()).toEqual(before);
  expect((await crd()).metadata).toMatchObject({ uid, labels: { team: 'x' }, annotations: { [CRD_VERSION]: '1.0.0' } });
});

test('an older version leaves the CRDs of a newer one as they are', async () => {
  await applyCrds(client, KINDS, { version: '1.10.0' });
  await age();
  const aged = await columns();
  const outcomes = await applyCrds(client, KINDS, { version: '1.9.0' });
  expect(new Set(outcomes.values())).toEqual(new Set(['left as a newer version wrote it']));
  expect(await columns()).toEqual(aged);
});
