import { type Kind, NAMED_USERS, nameIn, referenceKey, refsTo, type Users, usersOf } from '../kinds/definition.ts';
import type { FindReferenced, KindObject } from '../kinds/object.ts';
import type { Store } from '../kube/mod.ts';
import { holder } from '../rules/precedence.ts';
import { configMapForm, isShareable, secretForm } from '../subjects/content/rules/core-objects/form.ts';
import type { Kinds } from '../subjects/kinds.ts';
import { holderIn, isCalled } from './holder.ts';
import { type Stores, storeOf } from './stores.ts';

/** The object that has this number or v3 name. */
export function referenced<T extends KindObject>(kind: Kind<T>, store: Store<T>, ref: number | string): T | undefined {
  const by = typeof ref === 'number' ? 'id' : 'name';
  return holderIn(kind, store.byIndex(by, String(ref)), by, ref);
}

/** The kinds whose objects may refer to objects of this kind. */
export const referrersOf = (kinds: Kinds): Kind[] => Object.values(kinds).filter(({ references }) => references);

/** The users of the objects of one kind. */
export interface UserIndex<T> {
  /** Takes constant time for any number of users. */
  isUsed(object: T): boolean;
  /** Names of the users of the object, for messages; sorted. */
  users(object: T): string[];
  /**
   * Whether an object of the system names it, or one that is marked as used by the system, or it belongs to one; takes constant
   * time. Another object may have its name as well.
   */
  isUsedBySystem(object: T): boolean;
  /** The first users, which edits of users do not change, and the number of the others; takes constant time. */
  first(object: T): Users;
}

export function createUse<T extends KindObject>(stores: object, kinds: Kinds, kind: Kind<T>): UserIndex<T> {
  const sources = referrersOf(kinds).map((source) => ({ source, store: storeOf(stores, source) }));
  const find = finder(stores, { ...kinds, [kind.key]: kind as Kind });
  /** The references that mean this object: another object may have its name or id. */
  const meaning = (object: T) => refsTo(kind, object).filter((ref) => isSame(find({ to: kind.key, ref }), object));
  const firstIn = firstUsers(kind.key, find);
  const keys = (source: Kind, refs: readonly (number | string)[]) => keysOf(source, kind.key, refs, find);
  return {
    isUsed(object) {
      const refs = meaning(object);
      return sources.some(({ source, store }) => keys(source, refs).some((ref) => store.countByIndex('ref', ref) > 0));
    },
    users(object) {
      const refs = meaning(object);
      return sources
        .flatMap(({ source, store }) =>
          [...new Set(keys(source, refs).flatMap((ref) => store.byIndex('ref', ref)))].flatMap(
            (user) => source.referrers?.(user, kind.key, refs) ?? [`${source.noun} ${nameIn(source, user)}`],
          ),
        )
        .sort();
    },
    isUsedBySystem(object) {
      const refs = refsTo(kind, object);
      return (
        sources.some(({ source, store }) =>
          keys(source, refs).some((ref) => store.countByIndex('systemRef', ref) > 0),
        ) || ownersOfSystem(kinds, find, kind, object).length > 0
      );
    },
    first: (object) => firstIn(sources, meaning(object)),
  };
}

/** The keys of the references by which objects of a kind may mean an object of another one. */
const keysOf = (source: Kind, to: string, refs: readonly (number | string)[], find: FindReferenced): string[] =>
  refs
    .map((ref) => ({ to, ref }))
    .filter((reference) => source.means?.(reference, find) ?? true)
    .map(referenceKey);

/** Names of objects of the system that an object names: it belongs to them. */
const ownersOfSystem = <T extends KindObject>(
  kinds: Kinds,
  find: FindReferenced,
  { references }: Kind<T>,
  object: T,
): readonly string[] =>
  Array.from(references?.(object) ?? []).flatMap((reference) => {
    const target = kinds[reference.to];
    const owner = target?.isOfSystem && find(reference);
    return owner && target.isOfSystem?.(owner) ? [nameIn(target, owner)] : [];
  });

/**
 * Names of the first applications of the system that an object decides about: they name it, or something that names it, or it
 * belongs to one. At most one more than {@link NAMED_USERS} for each reference; the cost grows with what names the object, apart
 * from applications. What names an object by its name counts although an older object has that name.
 */
function systemUsersOf(stores: object, kinds: Kinds, kind: Kind, object: KindObject): readonly string[] {
  const sources = referrersOf(kinds).map((source) => ({ source, store: storeOf(stores, source) }));
  const find = finder(stores, kinds);
  const found = new Set(ownersOfSystem(kinds, find, kind, object));
  const seen = new Set<string>();
  const visit = (named: Kind, by: KindObject) => {
    for (const ref of refsTo(named, by)) {
      const key = referenceKey({ to: named.key, ref });
      if (seen.has(key)) continue;
      seen.add(key);
      for (const { source, store } of sources) {
        if (source.means?.({ to: named.key, ref }, find) === false) continue;
        if (!source.isOfSystem) for (const user of store.byIndex('ref', key)) visit(source, user);
        else for (const user of store.firstByIndex('systemRef', key, NAMED_USERS + 1)) found.add(nameIn(source, user));
      }
    }
  };
  visit(kind, object);
  return [...found].sort();
}

/** The first users among those of several sources. */
const firstUsers =
  (to: string, find: FindReferenced) =>
  (sources: readonly { source: Kind; store: Store<KindObject> }[], refs: readonly (number | string)[]): Users => {
    const named = new Set<string>();
    let unseen = 0;
    for (const { source, store } of sources)
      for (const key of keysOf(source, to, refs, find)) {
        const first = store.firstByIndex('ref', key, NAMED_USERS + 1);
        const names = first.flatMap(
          (user) => source.referrers?.(user, to, refs) ?? [`${source.noun} ${nameIn(source, user)}`],
        );
        for (const name of names) named.add(name);
        if (names.length > 0) unseen += store.countByIndex('ref', key) - first.length;
      }
    return unseenBy(usersOf(named), unseen);
  };

/** Users of several objects of which one is the content of the others. */
export const allUsers = (parts: readonly Users[]): Users =>
  unseenBy(
    usersOf(new Set(parts.flatMap(({ named }) => named))),
    parts.reduce((sum, { more }) => sum + more, 0),
  );

const unseenBy = ({ named, more }: Users, unseen: number): Users => ({
  named,
  more: more + unseen,
  ...(unseen > 0 && { isAtLeast: true }),
});

/** The users of objects of any kind, for callers that know the kind only at run time. */
export interface References {
  users(kind: Kind, object: KindObject): readonly string[];
  /** names of the first applications of the system that a stored or new object decides about */
  systemUsers(kind: Kind, object: KindObject): readonly string[];
  find: FindReferenced;
}

export const createReferences = (stores: object, kinds: Kinds): References => ({
  users: (kind, object) => createUse(stores, kinds, kind).users(object),
  systemUsers: (kind, object) => systemUsersOf(stores, kinds, kind, object),
  find: finder(stores, kinds),
});

const finder =
  (stores: object, kinds: Kinds): FindReferenced =>
  ({ to, ref }) => {
    if (to === 'secrets' || to === 'configMaps') return coreObject(stores as CoreStores, to, String(ref));
    if (to === 'roles') return roleOfUsers(stores as CoreStores, String(ref));
    const target = kinds[to];
    return target && referenced(target, storeOf(stores, target), ref);
  };

type CoreStores = Pick<Stores, 'secrets' | 'configMaps' | 'roles'>;

/** A role that users have made, which has no spec. */
function roleOfUsers({ roles }: CoreStores, name: string): KindObject | undefined {
  const [role] = roles.byIndex('name', name);
  return role && { ...role, spec: { name } };
}

/** The shareable Secret or ConfigMap that has this v3 name, in the form of the v3 API. */
function coreObject({ secrets, configMaps }: CoreStores, to: 'secrets' | 'configMaps', name: string) {
  if (to === 'secrets') {
    const secret = holder(secrets.byIndex('name', name).filter(isShareable), { has: isCalled(name) });
    return secret && secretForm(secret);
  }
  const configMap = holder(configMaps.byIndex('name', name).filter(isShareable), { has: isCalled(name) });
  return configMap && configMapForm(configMap);
}

const isSame = (a: KindObject | undefined, b: KindObject): boolean =>
  a !== undefined && (a === b || (a.metadata.name === b.metadata.name && a.metadata.uid === b.metadata.uid));
