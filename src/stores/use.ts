import { configMapForm, isShareable, secretForm } from '../domain/core-objects/form.ts';
import {
  type FindReferenced,
  type Kind,
  type KindObject,
  type Kinds,
  nameIn,
  referenceKey,
  refsTo,
} from '../kinds/index.ts';
import type { Store } from '../kube/mod.ts';
import { oldest } from './oldest.ts';
import { type Stores, storeOf } from './stores.ts';

/** The oldest object with this number or v3 name. */
export const referenced = <T extends KindObject>(store: Store<T>, ref: number | string): T | undefined =>
  oldest(store.byIndex(typeof ref === 'number' ? 'id' : 'name', String(ref)));

/** The kinds whose objects may refer to objects of this kind. */
export const referrersOf = (kinds: Kinds): Kind[] => Object.values(kinds).filter(({ references }) => references);

/** The users of the objects of one kind. */
export interface Use<T> {
  /** Takes constant time for any number of users. */
  isUsed(object: T): boolean;
  /** Names of the users of the object, for messages; sorted. */
  users(object: T): string[];
}

export function createUse<T extends KindObject>(stores: object, kinds: Kinds, kind: Kind<T>): Use<T> {
  const sources = referrersOf(kinds).map((source) => ({ source, store: storeOf(stores, source) }));
  const find = finder(stores, { ...kinds, [kind.key]: kind as Kind });
  /** The references that mean this object: an older object may have its name or id. */
  const meaning = (object: T) => refsTo(kind, object).filter((ref) => isSame(find({ to: kind.key, ref }), object));
  const keys = (refs: readonly (number | string)[]) => refs.map((ref) => referenceKey({ to: kind.key, ref }));
  return {
    isUsed(object) {
      const refs = keys(meaning(object));
      return sources.some(({ store }) => refs.some((ref) => store.countByIndex('ref', ref) > 0));
    },
    users(object) {
      const refs = meaning(object);
      return sources
        .flatMap(({ source, store }) =>
          [...new Set(keys(refs).flatMap((ref) => store.byIndex('ref', ref)))].flatMap(
            (user) => source.referrers?.(user, kind.key, refs) ?? [`${source.noun} ${nameIn(source, user)}`],
          ),
        )
        .sort();
    },
  };
}

/** The users of objects of any kind, for callers that know the kind only at run time. */
export interface References {
  users(kind: Kind, object: KindObject): readonly string[];
  find: FindReferenced;
}

export const createReferences = (stores: object, kinds: Kinds): References => ({
  users: (kind, object) => createUse(stores, kinds, kind).users(object),
  find: finder(stores, kinds),
});

const finder =
  (stores: object, kinds: Kinds): FindReferenced =>
  ({ to, ref }) => {
    if (to === 'secrets' || to === 'configMaps') return coreObject(stores as CoreStores, to, String(ref));
    const target = kinds[to];
    return target && referenced(storeOf(stores, target), ref);
  };

type CoreStores = Pick<Stores, 'secrets' | 'configMaps'>;

/** The oldest shareable Secret or ConfigMap with this v3 name, in the form of the v3 API. */
function coreObject({ secrets, configMaps }: CoreStores, to: keyof CoreStores, name: string) {
  if (to === 'secrets') {
    const secret = oldest(secrets.byIndex('name', name).filter(isShareable));
    return secret && secretForm(secret);
  }
  const configMap = oldest(configMaps.byIndex('name', name).filter(isShareable));
  return configMap && configMapForm(configMap);
}

const isSame = (a: KindObject | undefined, b: KindObject): boolean =>
  a !== undefined && (a === b || (a.metadata.name === b.metadata.name && a.metadata.uid === b.metadata.uid));
