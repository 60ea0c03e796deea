import type { ConfigMap, Secret } from '../../../api/resources.ts';
import { type Stores, storeOf } from '../../../datastore/stores.ts';
import { allUsers, createReferences, createUse, referrersOf } from '../../../datastore/use.ts';
import { type Kind, referenceKey, type Users } from '../../../kinds/definition.ts';
import type { KindObject } from '../../../kinds/object.ts';
import { KINDS } from '../../kinds.ts';
import { CORE_KINDS } from '../kinds/core-objects.ts';
import { configMapForm, secretForm, textNameOf } from '../rules/core-objects/form.ts';

type Core = Secret | ConfigMap;

/** Who uses the Secrets or ConfigMaps of the v3 API: what names them, and users of their volume mounts. */
export interface ContentUse {
  isUsed(object: Core): boolean;
  isUsedBySystem(object: Core): boolean;
  /** The first users, which edits of users do not change, and the number of the others. */
  first(object: Core): Users;
  /** The object in the form of the v3 API. */
  formOf(object: Core): KindObject;
}

export function createContentUse(stores: Stores, key: keyof typeof CORE_KINDS): ContentUse {
  const kind = CORE_KINDS[key] as unknown as Kind;
  const use = createUse(stores, KINDS, kind);
  const { find } = createReferences(stores, KINDS);
  // A volume mount that nothing uses is deleted with its content.
  const sources = referrersOf(KINDS)
    .filter((source) => source.key !== KINDS.volumeMounts.key)
    .map((source) => ({ source, store: storeOf(stores, source) }));
  const mountUse = createUse(stores, KINDS, KINDS.volumeMounts);
  const formOf = (object: Core) =>
    (key === 'secrets' ? secretForm(object as Secret) : configMapForm(object as ConfigMap)) as KindObject;
  const mountsOf = (object: Core) =>
    stores.volumeMounts.byIndex('ref', referenceKey({ to: key, ref: textNameOf(object) }));
  return {
    formOf,
    isUsed(object) {
      const reference = { to: key, ref: textNameOf(object) };
      const isNamed = sources.some(
        ({ source, store }) =>
          (source.means?.(reference, find) ?? true) && store.countByIndex('ref', referenceKey(reference)) > 0,
      );
      return isNamed || mountsOf(object).some((mount) => mountUse.isUsed(mount));
    },
    isUsedBySystem: (object) => use.isUsedBySystem(formOf(object)),
    first: (object) => allUsers([use.first(formOf(object)), ...mountsOf(object).map((mount) => mountUse.first(mount))]),
  };
}
