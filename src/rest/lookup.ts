import { UUID_PATTERN } from '../api/meta.ts';
import type { Application, MicroserviceEntry } from '../api/v3/index.ts';
import { entryUuid, objectName, v3Name } from '../domain/names.ts';
import { KINDS, type Kind, type KindObject } from '../kinds/index.ts';
import { oldest } from '../stores/oldest.ts';
import { isPresent } from './deletion.ts';
import { type Objects, objectsOf, type RestDependencies, type StoredObject } from './dependencies.ts';
import { notFound } from './errors.ts';
import type { Grant } from './route.ts';

const UUID = new RegExp(UUID_PATTERN);

/** The object that a path names, as it is now; or 404. What is being deleted is absent. */
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

/** Looks in the store first; on a miss where the API server can answer, by name, by selector or with a list of all. */
async function findObject<T extends KindObject>(
  deps: RestDependencies,
  kind: Kind<T>,
  value: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  const { key } = kind.rest;
  if (key === 'uuid' && !UUID.test(value)) return undefined;
  const objects = objectsOf(deps, kind);
  const is = (object: T) => isPresent(object) && keyValue(kind, object) === value;
  const find = () => oldestPresent(objects.find(key, value));
  const known = find();
  const guess = key === 'name' && !known ? { metadata: { name: objectName(value) } } : undefined;
  const object =
    (await fresh(objects, known, is, signal)) ??
    (await fresh(objects, guess, is, signal)) ??
    (key === 'id' ? undefined : oldest((await objects.select(key, value, signal)).filter(is))) ??
    // Nothing selects numbers, nor a uuid that is the uid.
    (key === 'id' || (key === 'uuid' && !known) ? await objects.refresh(signal).then(find) : undefined);
  return object && isPresent(object) ? object : undefined;
}

/** What a path has to say to name an object; undefined while it has no number. */
export function keyValue<T extends KindObject>({ rest, identity }: Kind<T>, object: T): string | undefined {
  if (rest.key === 'name') return v3Name(object);
  const value = identity[rest.key]?.(object);
  return value === undefined ? undefined : String(value);
}

/** Access to one object of a kind: roles written for kubectl name it by its object name. */
export const accessByKey = <T extends KindObject>(kind: Kind<T>): Pick<Grant, 'name' | 'objectName'> => ({
  name: kind.rest.key,
  objectName: (value, deps) =>
    kind.rest.key === 'name'
      ? objectName(value)
      : oldest(objectsOf(deps, kind).find(kind.rest.key, value))?.metadata.name,
});

/** The application as it is now, or 404. Those of the system are another resource. */
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

/** An entry and its application, as they are now. */
export interface Microservice {
  application: Application;
  entry: MicroserviceEntry;
}

/** The microservice as it is now; undefined when there is none. */
export async function findMicroservice(
  deps: RestDependencies,
  uuid: string,
  signal: AbortSignal,
): Promise<Microservice | undefined> {
  if (!UUID.test(uuid)) return undefined;
  const within = (application: Application | undefined): Microservice | undefined => {
    const entry = application?.spec.microservices?.find((one) => entryUuid(application, one) === uuid);
    return application && entry && isPresent(application) ? { application, entry } : undefined;
  };
  const find = () => oldestPresent(deps.applications.find('microservice', uuid));
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

/** The oldest of those that are not being deleted, if there is one. */
function oldestPresent<T extends StoredObject>(objects: readonly T[]): T | undefined {
  return oldest(objects.filter(isPresent)) ?? oldest(objects);
}

/** What the API server has under the name of a known object, as long as it is the same thing. */
async function fresh<T extends StoredObject>(
  objects: Objects<T>,
  known: StoredObject | undefined,
  is: (object: T) => boolean,
  signal: AbortSignal,
): Promise<T | undefined> {
  const now = known && (await objects.read(known.metadata.name, signal));
  return now && is(now) ? now : undefined;
}
