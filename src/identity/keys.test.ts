import { expect, test, vi } from 'vitest';
import { createInMemoryApiServer } from '../../testing/in-memory-api-server.ts';
import { IDENTITY_SECRETS } from '../api/names.ts';
import { CORE_RESOURCES, type Secret } from '../api/resources.ts';
import { createStores } from '../datastore/stores.ts';
import { createStore } from '../kube/store.ts';
import { createKeys } from './keys.ts';

/** Two replicas whose watches are frozen: what they have of the Secret is what they read and write themselves. */
const NAMESPACE = 'plant';
const never = new AbortController().signal;

function replicas(count: number) {
  const { client } = createInMemoryApiServer(createStores({ namespace: NAMESPACE }));
  const keysOf = () =>
    createKeys({
      ...{ client, namespace: NAMESPACE, given: {}, longestTokenMs: () => 3_600_000, now: Date.now },
      store: createStore<Secret>({
        resource: CORE_RESOURCES.secrets,
        selection: { namespace: NAMESPACE, name: IDENTITY_SECRETS.keys },
      }),
    });
  return { client, keys: Array.from({ length: count }, keysOf) };
}

test('a replica whose watch is frozen reads a key that it does not know, before it refuses a token', async () => {
  const { keys } = replicas(2);
  const [first, second] = keys as [ReturnType<typeof createKeys>, ReturnType<typeof createKeys>];
  await first.ensure(never);
  await second.ensure(never);
  expect(second.signing?.kid).toBe(first.signing?.kid);
  const { kid } = await first.rotate(never);
  expect(second.publicJwks().keys.map((key) => key.kid)).not.toContain(kid);
  expect(await second.find(kid, never)).toMatchObject({ kid, alg: 'RS256' });
  // The former key verifies until its last token has ended.
  expect(await second.find(first.signing?.kid ?? '', never)).toBeDefined();
});

test('tokens of keys that nobody has cause one read, however many come', async () => {
  const { client, keys } = replicas(1);
  const [only] = keys as [ReturnType<typeof createKeys>];
  await only.ensure(never);
  const reads = vi.spyOn(client, 'find');
  const found = await Promise.all(Array.from({ length: 200 }, (_, i) => only.find(`forged-${i}`, never)));
  expect(found.filter(Boolean)).toEqual([]);
  expect(reads.mock.calls.length).toBeLessThanOrEqual(1);
});
