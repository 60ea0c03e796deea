import { describe, expect, it, test } from 'vitest';
import type { Application, Registry } from '../api/v3/index.ts';
import { makeApplication, makeEntry, makeRegistry } from '../domain/_util.ts';
import { BUILT_INS } from '../domain/registry/index.ts';
import { inUseError, KINDS } from '../kinds/index.ts';
import { createStores } from './stores.ts';
import { createUse } from './use.ts';

const NAMESPACE = 'default';

function makeUse() {
  const stores = createStores({ namespace: NAMESPACE });
  return { stores, use: createUse(stores, KINDS, KINDS.registries) };
}

const team = makeRegistry('team', { id: 12 });
const remote = makeRegistry('remote', { ...BUILT_INS[0]?.spec });

const uses = (registry: number | string | undefined, more: object = {}) =>
  makeApplication({ name: 'app', entries: [makeEntry({ images: { amd64: 'a', registry }, ...more })] });

function users(of: Registry, registries: Registry[], applications: Application[]) {
  const { stores, use } = makeUse();
  stores.registries.swap(registries, '1');
  stores.applications.swap(applications, '1');
  const names = use.users(of);
  expect(use.isUsed(of)).toBe(names.length > 0);
  return names;
}

describe('the users of a registry', () => {
  it('are found by id, by name and by default', () => {
    expect(users(team, [team, remote], [uses(12)])).toEqual(['app/reader']);
    expect(users(team, [team, remote], [uses('12')])).toEqual(['app/reader']);
    expect(users(team, [team, remote], [uses('team')])).toEqual(['app/reader']);
    expect(users(remote, [team, remote], [uses(undefined)])).toEqual(['app/reader']);
  });
  it('are not entries that use another registry', () => {
    expect(users(team, [team, remote], [uses(1)])).toEqual([]);
    expect(users(team, [team, remote], [uses('other')])).toEqual([]);
    expect(users(team, [team, remote], [makeApplication({ entries: [] })])).toEqual([]);
  });
  it('are not entries with a catalog item', () => {
    const entries = [makeEntry({ images: { catalogId: 7 } as never })];
    expect(users(remote, [team, remote], [makeApplication({ entries })])).toEqual([]);
  });
  it('include stopped microservices, which can be started', () => {
    expect(users(team, [team], [uses('team', { isActivated: false })])).toEqual(['app/reader']);
  });
  it('are not entries whose reference means an older registry of the same name', () => {
    const young = { ...team, metadata: { ...team.metadata, name: 'team-2', uid: 'uid-z' } };
    young.spec = { ...team.spec, id: undefined, name: 'team' };
    expect(users(young, [team, young], [uses('team')])).toEqual([]);
  });
  it('are named by the refusal to delete it', () => {
    expect(inUseError(KINDS.registries, team, ['a/b', 'c/d'])).toMatchObject({
      status: 400,
      code: 'REGISTRY_IS_IN_USE',
      message: 'registry 12 (team) is used by a/b, c/d',
    });
  });
});

test('isUsed follows each edit of an application', () => {
  const { stores, use } = makeUse();
  const team = makeRegistry('team', { id: 12 });
  stores.registries.swap([team], '1');
  let version = 1;
  const write = (registry: number | string | undefined) => {
    const application = makeApplication({ name: 'app', entries: [makeEntry({ images: { amd64: 'a', registry } })] });
    application.metadata.resourceVersion = String(++version);
    stores.applications.set(application);
    return application;
  };
  const used = () => [use.isUsed(team), use.users(team)];
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
