import { ANNOTATIONS, PROTECTED } from '../api/names.ts';
import { duplicateName } from '../domain/errors.ts';
import { v3Name } from '../domain/names.ts';
import { HttpError } from '../http/http-error.ts';
import { isAlreadyExists } from '../kube/api-error.ts';
import type { Objects, StoredObject } from './dependencies.ts';

/** How long an answer to DELETE waits for the end of the object. */
export const DELETE_WAIT_MS = 3_000;
/** How long a create waits for the end of the object that had its name. */
export const NAME_WAIT_MS = 10_000;
/** Seconds after which a name that was still in use may be asked for again. */
const NAME_RETRY_AFTER = 5;

/**
 * What is being deleted is absent at this door, at every replica, whoever asked for its deletion: machines may hold its
 * end for minutes, and nothing can be done with it any more.
 */
export const isPresent = ({ metadata }: StoredObject): boolean => metadata.deletionTimestamp === undefined;

/** Deletes an object, and waits a moment for its end, so that most answers find its name free. 409 when it is protected. */
export async function deleteObject<T extends StoredObject & { kind: string; spec: { name?: string } }>(
  objects: Objects<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  const mark = object.metadata.annotations?.[ANNOTATIONS.protected];
  if (mark !== undefined && mark !== 'false')
    throw new HttpError(409, 'PROTECTED', `${object.kind} ${v3Name(object)}: ${PROTECTED}`);
  await objects.delete(object, signal);
  await objects.untilGone(object, DELETE_WAIT_MS, signal);
}

/** Creates under a v3 name once whoever is being deleted has given it up; 409 when that takes too long, or never happens. */
export async function createNamed<T extends StoredObject & { spec: { name?: string } }>(
  objects: Objects<T, 'name'>,
  what: { kind: string; name: string },
  make: () => Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const until = performance.now() + NAME_WAIT_MS;
  const ended = async (holder: StoredObject) => {
    const now = await objects.read(holder.metadata.name, signal);
    if (!now) return;
    if (isPresent(now)) throw duplicateName(what.kind, what.name);
    if (await objects.untilGone(now, until - performance.now(), signal)) return;
    const message = `the ${what.kind} ${what.name} is being deleted, and machines have not ended all of it yet; try again`;
    throw new HttpError(409, 'BEING_DELETED', message, { headers: { 'retry-after': String(NAME_RETRY_AFTER) } });
  };
  for (;;) {
    for (const holder of objects.find('name', what.name)) await ended(holder);
    const object = await make();
    try {
      return await objects.create(object, signal);
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await ended(object);
    }
  }
}
