import { describe, expect, it, test } from 'vitest';
import type { Application, Registry } from '../api/v3/index.ts';
import { inUseError, usersOf } from '../kinds/definition.ts';
import { makeRegistry } from '../subjects/catalog/_make.ts';
import { BUILT_INS } from '../subjects/catalog/rules/registry.ts';
import { KINDS } from '../subjects/kinds.ts';
import { makeApplication, makeEntry } from '../subjects/workloads/_make.ts';
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
    expect(inUseError(KINDS.registries, team, usersOf(['c/d', 'a/b']))).toMatchObject({
      status: 400,
      code: 'REGISTRY_IS_IN_USE',
      message: 'registry 12 (team) is used by a/b, c/d',
    });
  });
});

describe('of many users', () => {
  const { stores, use } = makeUse();
  const names = Array.from({ length: 250 }, (_, i) => `app-${i + 100}`);
  const user = (name: string, version: string, more: object = {}) => {
    const application = makeApplication({
      name,
      uid: name,
      entries: [makeEntry({ images: { amd64: 'a', registry: 12 }, ...more })],
    });
    application.metadata.resourceVersion = version;
    return application;
  };
  const text = () => inUseError(KINDS.registries, team, use.first(team)).message;
  stores.registries.swap([team], '1');
  stores.applications.swap(
    names.map((name) => user(name, '1')),
    '1',
  );
  const first = names
    .slice(0, 10)
    .map((name) => `${name}/reader`)
    .join(', ');

  it('the first are named, and the number of the others is rough', () => {
    expect(text()).toBe(`registry 12 (team) is used by ${first} and at least 200 more`);
    expect(inUseError(KINDS.registries, team, usersOf(use.users(team))).message).toBe(
      `registry 12 (team) is used by ${first} and 240 more`,
    );
  });
  it('an edit of one and a few new ones change no word', () => {
    stores.applications.set(user('app-100', '2', { isActivated: false }));
    stores.applications.set(user('aaa', '3'));
    expect(text()).toBe(`registry 12 (team) is used by ${first} and at least 200 more`);
  });
  it('control characters of names are spaces', () => {
    expect(inUseError(KINDS.registries, team, usersOf(['catalog item a\nb'])).message).toMatch(/catalog item a b$/);
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
