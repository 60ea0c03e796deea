import { UUID_PATTERN } from '../../api/meta.ts';
import type { Application, MicroserviceEntry } from '../../api/v3/index.ts';
import { holderIn } from '../../datastore/holder.ts';
import { type Kind, nameIn } from '../../kinds/definition.ts';
import type { KindObject } from '../../kinds/object.ts';
import { objectName, v3Name } from '../../rules/names.ts';
import { KINDS } from '../../subjects/kinds.ts';
import { entryHolder } from '../../subjects/workloads/rules/application/claims.ts';
import { type Objects, objectsOf, type RestDependencies, type StoredObject } from '../contract/dependencies.ts';
import { notFound } from '../contract/errors.ts';
import type { Permission } from '../contract/route.ts';
import { isPresent } from './deletion.ts';

const UUID = new RegExp(UUID_PATTERN);

/** The present object that a path names; or 404, also for an object that is being deleted. */
export async function presentObject<T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  value: string,
  signal: AbortSignal,
): Promise<T> {
  const object = await findObject(deps, kind, value, signal);
  if (object) return object;
  throw missing(kind, value);
}

/** `there is no node with the uuid ...`, `there is no application "..."`. */
function missing<T extends KindObject>({ noun, rest }: Kind<T>, value: string, of = noun) {
  const named = rest.key === 'name' ? `"${value}"` : `with the ${rest.key} ${value}`;
  return notFound(rest.notFound, `there is no ${of} ${named}`);
}

/** Reads from the store first, then from the API server: by name, by selector, or by a list of all objects. */
export async function findObject<T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  value: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  const { key } = kind.rest;
  if (key === 'uuid' && !UUID.test(value)) return undefined;
  const objects = objectsOf(deps, kind);
  const is = (object: T) => isPresent(object) && keyValue(kind, object) === value;
  const find = () => presentHolder(kind, objects.find(key, value), value);
  const known = find();
  const guess = key === 'name' && !known ? { metadata: { name: objectName(value) } } : undefined;
  const object =
    (await fresh(objects, known, is, signal)) ??
    (await fresh(objects, guess, is, signal)) ??
    (key === 'id' ? undefined : holderIn(kind, (await objects.select(key, value, signal)).filter(is), key, value)) ??
    // No selector finds an id, or a uuid that is the uid.
    (key === 'id' || (key === 'uuid' && !known) ? await objects.refresh(signal).then(find) : undefined);
  return object && isPresent(object) ? object : undefined;
}

/** The value that names an object in a path; undefined while it has no id. */
export function keyValue<T extends KindObject>(kind: Kind<T>, object: T): string | undefined {
  const { rest, identity } = kind;
  if (rest.key === 'name') return nameIn(kind, object);
  const value = identity[rest.key]?.(object);
  return value === undefined ? undefined : String(value);
}

/** The access rule for one object of a kind: roles for kubectl have its object name. */
export const accessByKey = <T extends KindObject>(kind: Kind<T>): Pick<Permission, 'name' | 'names'> => ({
  name: kind.rest.key,
  names(value, deps) {
    if (kind.rest.key === 'name') return [objectName(value)];
    const object = holderIn(kind, objectsOf(deps, kind).find(kind.rest.key, value), kind.rest.key, value);
    return object ? [object.metadata.name] : [];
  },
});

/**
 * The access rule for one microservice. Roles name it by its uuid, by its application and its own name (`plant-a/reader`), or by its
 * application alone, which means all of that application's.
 */
export const accessToMicroservice: Pick<Permission, 'name' | 'names'> = {
  name: 'uuid',
  names(uuid, deps) {
    const claims = UUID.test(uuid) ? deps.applications.find('microservice', uuid) : [];
    const holder = entryHolder(uuid, claims.filter(isPresent)) ?? entryHolder(uuid, claims);
    if (!holder) return [];
    const application = v3Name(holder.application);
    return [`${application}/${holder.entry.name}`, application];
  },
};

/** The present application, or 404. System applications are another resource. */
export async function applicationByName(
  deps: RestDependencies,
  name: string,
  signal: AbortSignal,
  { system = false }: { system?: boolean } = {},
): Promise<Application> {
  const application = await findObject(deps, KINDS.applications, name, signal);
  if (application && (application.spec.isSystem === true) === system) return application;
  throw missing(KINDS.applications, name, `${system ? 'system ' : ''}application`);
}

/** An entry and its present application. */
export interface Microservice {
  application: Application;
  entry: MicroserviceEntry;
}

/** The present microservice; undefined when there is none. */
export async function presentMicroservice(
  deps: RestDependencies,
  uuid: string,
  signal: AbortSignal,
): Promise<Microservice | undefined> {
  if (!UUID.test(uuid)) return undefined;
  const within = (application: Application | undefined): Microservice | undefined => {
    const own = application && isPresent(application) ? entryHolder(uuid, [application]) : undefined;
    return own;
  };
  const find = () => {
    const claims = deps.applications.find('microservice', uuid);
    return (entryHolder(uuid, claims.filter(isPresent)) ?? entryHolder(uuid, claims))?.application;
  };
  const known = find();
  const now = known && (await deps.applications.read(known.metadata.name, signal));
  if (now && !isPresent(now)) return undefined;
  const there = within(now);
  if (there) return there;
  await deps.applications.refresh(signal);
  return within(find());
}

export const microserviceMissing = (uuid: string) =>
  notFound('INVALID_MICROSERVICE_UUID', `there is no microservice with the uuid ${uuid}`);

/** The one of those that are not being deleted, if there is one, that has the value in paths. */
function presentHolder<T extends KindObject>(kind: Kind<T>, objects: readonly T[], value: string): T | undefined {
  const { key } = kind.rest;
  return holderIn(kind, objects.filter(isPresent), key, value) ?? holderIn(kind, objects, key, value);
}

/** The object of the API server with the name of a known object, if it is the same object. */
async function fresh<T extends StoredObject>(
  objects: Objects<T>,
  known: StoredObject | undefined,
  is: (object: T) => boolean,
  signal: AbortSignal,
): Promise<T | undefined> {
  const now = known && (await objects.read(known.metadata.name, signal));
  return now && is(now) ? now : undefined;
}
