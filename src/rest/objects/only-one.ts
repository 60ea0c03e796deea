import { API_VERSION } from '../../api/names.ts';
import { equal } from '../../kube/compare.ts';
import type { Objects, StoredObject } from '../contract/dependencies.ts';
import { isPresent } from './deletion.ts';
import { edit, withChanges } from './edit.ts';

type Stored = StoredObject & { apiVersion: string; kind: string; spec: object };

/** A kind of which an installation has one object, so that it has no name in a path. */
interface OnlyOne<T extends Stored> {
  objects: Objects<T>;
  kind: string;
  /** of the object */
  name: string;
  /** Throws when an object with this spec cannot be. */
  require(object: Pick<T, 'spec'>): void;
}

/** The object; undefined without one, and while it is being deleted. */
export async function readOnlyOne<T extends Stored>(
  { objects, name }: Pick<OnlyOne<T>, 'objects' | 'name'>,
  signal: AbortSignal,
): Promise<T | undefined> {
  const object = await objects.read(name, signal);
  return object && isPresent(object) ? object : undefined;
}

/**
 * PUT: `settings` replace the members `fields` of the spec, of which absent ones get their defaults; further members, which kubectl
 * alone sets, stay. The whole is judged as it is about to be stored, also after a conflict. Resolves with the stored object.
 */
export async function putOnlyOne<T extends Stored>(
  { objects, kind, name, require }: OnlyOne<T>,
  { fields, settings }: { fields: readonly string[]; settings: T['spec'] },
  signal: AbortSignal,
): Promise<T> {
  const stored = await readOnlyOne({ objects, name }, signal);
  if (!stored) {
    const created = { apiVersion: API_VERSION, kind, metadata: { name }, spec: settings } as T;
    require(created);
    return objects.create(created, signal);
  }
  const named = { ...Object.fromEntries(fields.map((field) => [field, undefined])), ...settings };
  const change = (now: T) => {
    const spec = defined({ ...now.spec, ...named }) as T['spec'];
    require({ spec } as Pick<T, 'spec'>);
    return equal(spec, now.spec) ? now : withChanges(now, { spec });
  };
  return edit(objects, async () => (await readOnlyOne({ objects, name }, signal)) ?? stored, change, signal);
}

/** The members that have a value. */
const defined = (spec: object) => Object.fromEntries(Object.entries(spec).filter(([, value]) => value !== undefined));
