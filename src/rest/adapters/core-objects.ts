import { isDeepStrictEqual } from 'node:util';
import { ANNOTATIONS } from '../../api/names.ts';
import type { ConfigMap, Secret } from '../../api/resources.ts';
import { HttpError } from '../../http/http-error.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import { duplicateName } from '../../rules/errors.ts';
import { v3Name } from '../../rules/names.ts';
import {
  type CoreForm,
  configMapForm,
  coreConfigMap,
  coreName,
  coreSecret,
  isShareable,
  secretForm,
} from '../../subjects/content/rules/core-objects/form.ts';
import type { Objects } from '../contract/dependencies.ts';
import { isPresent } from '../objects/deletion.ts';

/** How core objects of one resource become objects of the v3 API, and back. */
interface Forms<T, C> {
  noun: string;
  read(core: C): T;
  write(form: T): C;
}

type AnyForm<C> = CoreForm<{ name?: string; id?: number }, C>;

/**
 * The shareable ones of the core objects of a resource, in the form of the v3 API. All others are absent here, whatever
 * their name.
 */
function createForms<T extends AnyForm<C>, C extends Secret | ConfigMap>(
  core: Objects<C>,
  forms: Forms<T, C>,
): Objects<T> {
  const known = new WeakMap<C, T>();
  const formOf = (object: C): T => {
    const form = known.get(object) ?? forms.read(object);
    known.set(object, form);
    return form;
  };
  const shareable = (objects: readonly C[]) => objects.filter(isShareable).map(formOf);
  const find = (index: string, key: string) => shareable(core.find(index, key));

  /** The refusal of a name that an object has which is no object of the v3 API, or has just become one. */
  async function holderOf(object: C, name: string, signal: AbortSignal) {
    const holder = await core.read(object.metadata.name, signal);
    if (!holder || !isPresent(holder)) return undefined;
    if (isShareable(holder)) return duplicateName(forms.noun, name);
    return new HttpError(409, 'DUPLICATE_NAME', `a ${object.kind} of this name exists and is not shareable`);
  }

  return {
    get synced() {
      return core.synced;
    },
    list: () => shareable(core.find('shareable', 'true')),
    find,
    async read(name, signal) {
      const object = await core.read(name, signal);
      return object && isShareable(object) ? formOf(object) : undefined;
    },
    async select(field, value, signal) {
      await core.refresh(signal);
      return field === 'name' ? find('name', value) : [];
    },
    refresh: core.refresh,
    async create(object, signal) {
      const name = v3Name(object);
      const metadata = { ...object.metadata, name: coreName(name) };
      const written = forms.write({ ...object, metadata, spec: { ...object.spec, name } });
      try {
        return formOf(await core.create(written, signal));
      } catch (error) {
        if (!isAlreadyExists(error)) throw error;
        throw (await holderOf(written, name, signal)) ?? error;
      }
    },
    async replace(object, signal) {
      if (object.core && isSame(forms.write(object), object.core)) return object;
      const annotations = { ...object.metadata.annotations, [ANNOTATIONS.updatedAt]: new Date().toISOString() };
      const written = forms.write({ ...object, metadata: { ...object.metadata, annotations } });
      return formOf(await core.replace(written, signal));
    },
    delete: (object, signal) => core.delete(object.core as C, signal),
    untilGone: (object, ms, signal) => core.untilGone(object.core as C, ms, signal),
  };
}

/** Whether writing would change nothing. */
function isSame(written: Secret | ConfigMap, stored: Secret | ConfigMap): boolean {
  const content = ({ metadata: { labels = {}, annotations = {} }, immutable, ...core }: Secret | ConfigMap) => {
    const { data = {}, binaryData = {} } = core as ConfigMap;
    return { labels, annotations, immutable, data, binaryData };
  };
  return isDeepStrictEqual(content(written), content(stored));
}

export const createSecrets = (core: Objects<Secret>) =>
  createForms(core, { noun: 'secret', read: secretForm, write: coreSecret });

export const createConfigMaps = (core: Objects<ConfigMap>) =>
  createForms(core, { noun: 'config map', read: configMapForm, write: coreConfigMap });
