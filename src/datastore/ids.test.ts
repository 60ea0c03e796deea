import { expect, test } from 'vitest';
import { createInMemoryApiServer } from '../../testing/in-memory-api-server.ts';
import { LABELS } from '../api/names.ts';
import type { Registry } from '../api/v3/index.ts';
import { identityOf } from '../controllers/identity.ts';
import { makeRegistry } from '../subjects/catalog/_make.ts';
import { KINDS } from '../subjects/kinds.ts';
import { makeApplication, makeEntry } from '../subjects/workloads/_make.ts';
import { createIds } from './ids.ts';
import { createIdLookup, createStores } from './stores.ts';
import { createSystemNumbers } from './system-names.ts';

const signal = AbortSignal.timeout(30_000);

function makeIds() {
  const stores = createStores({ namespace: 'skerry' });
  for (const store of Object.values(stores)) store.swap([], '1');
  const { client } = createInMemoryApiServer(stores);
  const time = { now: 0 };
  const withId = createIdLookup(stores, KINDS);
  const isNamed = createSystemNumbers(stores, KINDS);
  const ids = createIds({ client, namespace: 'skerry', withId, isNamed, clock: () => time.now });
  let version = 10_000;
  const show = (registry: Registry, labels: Record<string, string> = {}) => {
    const metadata = { ...registry.metadata, labels, resourceVersion: String(++version) };
    stores.registries.set({ ...registry, metadata });
    return stores.registries.get('skerry', registry.metadata.name) as Registry;
  };
  return { ids, stores, time, show };
}

test('a number that was issued for one object is not given to another that asks for it', async () => {
  const { ids, stores, show } = makeIds();
  const given = await ids.next('Registry', signal);
  const claimant = show(makeRegistry('claimant', { id: given }));
  const identity = await identityOf({ stores, ids }, KINDS.registries, claimant, signal);
  expect(identity.id).not.toBe(given);
  const owner = show(makeRegistry('owner'), { [LABELS.id]: String(given) });
  expect(await identityOf({ stores, ids }, KINDS.registries, owner, signal)).toEqual({ id: given });
});

test('a number that an application of the system names, and no object has, is given to no object by chance', async () => {
  const { ids, stores } = makeIds();
  const first = await ids.next('Registry', signal);
  const named = [first + 1, first + 2];
  const entries = named.map((registry) => makeEntry({ name: `of-${registry}`, images: { amd64: 'a', registry } }));
  const application = makeApplication({ name: 'system-plant', entries });
  stores.applications.set({ ...application, spec: { ...application.spec, isSystem: true } });
  expect(await ids.next('Registry', signal)).toBe(first + 3);
});

test('an issued number that no object stored is free after a minute', async () => {
  const { ids, stores, time, show } = makeIds();
  const given = await ids.next('Registry', signal);
  expect(ids.isIssued('Registry', given)).toBe(true);
  expect(ids.isIssued('Application', given)).toBe(false);
  time.now = 60_000;
  const claimant = show(makeRegistry('claimant', { id: given }));
  expect(await identityOf({ stores, ids }, KINDS.registries, claimant, signal)).toEqual({ id: given });
});
