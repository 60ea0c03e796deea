import { expect, test } from 'vitest';
import { LABELS } from '../../../api/names.ts';
import type { Secret } from '../../../api/resources.ts';
import { ApiError, type KubeObject } from '../../../kube/mod.ts';
import { writeSecret } from './secret.ts';

const owner: KubeObject = {
  ...{ apiVersion: 'skerry.dev/v3', kind: 'Certificate' },
  metadata: { name: 'pump', namespace: 'plant', uid: 'u', resourceVersion: '1' },
};
const secret = (resourceVersion: string): Secret => ({
  ...{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/tls' },
  metadata: { name: 'pump', namespace: 'plant', resourceVersion, labels: { [LABELS.certificate]: 'pump' } },
  data: { 'tls.key': 'b3RoZXI=' },
});

const writes = async (known: Secret | undefined) => {
  const written: Secret[] = [];
  const write = async (_resource: unknown, object: Secret) => {
    if (object.metadata.resourceVersion !== '2') throw new ApiError(409, { reason: 'Conflict' }, 'replace');
    written.push(object);
    return object;
  };
  const client = { find: async () => secret('2'), create: write, replace: write } as never;
  const given = { name: 'pump', known, owner, label: 'certificate', texts: { 'tls.key': 'mine' } } as const;
  await writeSecret({ client, namespace: 'plant' }, given, new AbortController().signal);
  return written.length;
};

test.each([
  ['has no such Secret', undefined],
  ['has a former version of it', secret('1')],
])('the key of another leader is kept where the store %s yet', async (_, known) => {
  expect(await writes(known)).toBe(0);
});

test('the Secret of the store is replaced', async () => {
  expect(await writes(secret('2'))).toBe(1);
});
