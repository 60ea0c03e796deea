import { expect, test } from 'vitest';
import { makeRegistry } from '../domain/_util.ts';
import { createStores } from './stores.ts';
import { createWorld } from './world.ts';

const NAMESPACE = 'default';

function makeStores() {
  const stores = createStores({ namespace: NAMESPACE });
  return { stores, world: createWorld(stores) };
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
