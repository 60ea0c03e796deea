import { expect, test } from 'vitest';
import { makeRegistry } from '../subjects/catalog/_make.ts';
import { createLookups } from './lookups.ts';
import { createStores } from './stores.ts';

const NAMESPACE = 'default';

function makeStores() {
  const stores = createStores({ namespace: NAMESPACE });
  return { stores, lookups: createLookups(stores) };
}

test('a name or id that two registries have means the older one', () => {
  const { stores, lookups } = makeStores();
  const team = makeRegistry('team', { id: 12 });
  const young = makeRegistry('team-2', { id: 12, name: 'team' });
  young.metadata = { ...young.metadata, uid: 'young', creationTimestamp: '2027-01-01T00:00:00Z' };
  stores.registries.swap([young, team], '1');
  expect(lookups.find('registries', 12)).toBe(team);
  expect(lookups.find('registries', 'team')).toBe(team);
  expect(lookups.find('registries', 'team-2')).toBeUndefined();
});
