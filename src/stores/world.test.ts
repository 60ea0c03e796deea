import { expect, test } from 'vitest';
import { makeApplication, makeEntry, makeRegistry } from '../domain/_util.ts';
import { isUsed, registryUsers } from '../domain/index.ts';
import { createStores } from './stores.ts';
import { createWorld, registryUse } from './world.ts';

const NAMESPACE = 'default';

function makeStores() {
  const stores = createStores({ namespace: NAMESPACE });
  return { stores, world: createWorld(stores), use: registryUse(stores) };
}

test('of two registries with one name or id the older one is meant', () => {
  const { stores, world } = makeStores();
  const team = makeRegistry('team', { id: 12 });
  const young = makeRegistry('team-2', { id: 12, name: 'team' });
  young.metadata = { ...young.metadata, uid: 'young', creationTimestamp: '2027-01-01T00:00:00Z' };
  stores.registries.swap([young, team], '1');
  expect(world.registry(12)).toBe(team);
  expect(world.registry('team')).toBe(team);
  expect(world.registry('team-2')).toBeUndefined();
});

test('who uses a registry is counted up and down with each edit', () => {
  const { stores, use } = makeStores();
  const team = makeRegistry('team', { id: 12 });
  stores.registries.swap([team], '1');
  let version = 1;
  const write = (registry: number | string | undefined) => {
    const application = makeApplication({ name: 'app', entries: [makeEntry({ images: { amd64: 'a', registry } })] });
    application.metadata.resourceVersion = String(++version);
    stores.applications.set(application);
    return application;
  };
  const used = () => [isUsed(team, use), registryUsers(team, use)];
  expect(used()).toEqual([false, []]);
  for (const ref of [12, '12', 'team', ' team ']) {
    write(ref);
    expect(used()).toEqual([true, ['app/reader']]);
    write('other');
    expect(used()).toEqual([false, []]);
  }
  const last = write('team');
  stores.applications.remove({ ...last, metadata: { ...last.metadata, resourceVersion: String(++version) } });
  expect(used()).toEqual([false, []]);
});
