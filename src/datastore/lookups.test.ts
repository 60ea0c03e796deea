import { describe, expect, test } from 'vitest';
import { LABELS } from '../api/names.ts';
import type { Secret } from '../api/resources.ts';
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

describe('a Secret with keys of the system', () => {
  const UUID = '11111111-1111-4111-8111-111111111111';
  const store = (name: string, labels: Record<string, string>) => {
    const { stores, lookups } = makeStores();
    const metadata = {
      name,
      namespace: NAMESPACE,
      uid: 'u',
      labels: { ...labels, [LABELS.shareable]: 'true', [LABELS.id]: '7' },
    };
    const secret: Secret = { apiVersion: 'v1', kind: 'Secret', metadata, data: { key: 'eA==' } };
    stores.secrets.swap([secret], '1');
    stores.registries.swap([makeRegistry('team', { passwordSecretRef: { name, key: 'key' } })], '1');
    return { stores, lookups };
  };

  test.each<[string, string, Record<string, string>]>([
    ['of a node', `skerry-platform-${UUID}`, { [LABELS.platform]: 'true' }],
    ['of a node, without its label', `skerry-platform-${UUID}`, {}],
    ['of a node, under another name', 'mine', { [LABELS.platform]: 'true' }],
    ['of an authority', 'skerry-ca-router-site-ca', { [LABELS.authority]: 'router-site-ca' }],
    ['of an authority, without its label', 'skerry-ca-router-site-ca', {}],
    ['of a provisioning key', `provisioning-key-${UUID}`, {}],
  ])('%s is no shareable one for whoever labels it', (_, name, labels) => {
    const { stores, lookups } = store(name, labels);
    expect(lookups.secret(name)).toBeUndefined();
    expect(stores.secrets.byIndex('shareable', 'true')).toEqual([]);
    expect(stores.secrets.byIndex('id', '7')).toEqual([]);
    const [registry] = stores.registries.list();
    expect(registry && lookups.registryPassword(registry)).toBeUndefined();
  });

  test('is found by its name for the system alone, also without its label, and no other Secret is', () => {
    const name = `skerry-platform-${UUID}`;
    expect(store(name, {}).lookups.secretOfSystem(NAMESPACE, name)?.data).toEqual({ key: 'x' });
    expect(store('mine', {}).lookups.secretOfSystem(NAMESPACE, 'mine')).toBeUndefined();
  });
});
