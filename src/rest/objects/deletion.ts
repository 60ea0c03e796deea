import { ANNOTATIONS, PROTECTED } from '../../api/names.ts';
import { HttpError } from '../../http/http-error.ts';
import { isAlreadyExists } from '../../kube/api-error.ts';
import { duplicateName } from '../../rules/errors.ts';
import { v3Name } from '../../rules/names.ts';
import type { Objects, StoredObject } from '../contract/dependencies.ts';

/** How long DELETE waits until the object is gone. */
export const DELETE_WAIT_MS = 3_000;
/** How long a create waits until an object with its name is gone. */
export const NAME_WAIT_MS = 10_000;
/** The Retry-After of a create whose name is still in use, in seconds. */
const NAME_RETRY_AFTER = 5;
/** The reason for which the deletion of a node or an application takes time. */
export const MACHINES = 'nodes have not removed all of it yet';

/**
 * Objects that are being deleted are absent in REST at every replica, whoever deleted them: a finalizer may delay their
 * deletion for minutes, and no operation on them is possible any more.
 */
export const isPresent = ({ metadata }: StoredObject): boolean => metadata.deletionTimestamp === undefined;

/** 409 for an object that is protected from deletion. */
export function requireUnprotected(object: StoredObject & { kind: string; spec: { name?: string } }): void {
  const mark = object.metadata.annotations?.[ANNOTATIONS.protected];
  if (mark !== undefined && mark !== 'false')
    throw new HttpError(409, 'PROTECTED', `${object.kind} ${v3Name(object)}: ${PROTECTED}`);
}

/** Deletes an object and waits a moment until it is gone, so that its name is usually free then. 409 when protected. */
export async function deleteObject<T extends StoredObject & { kind: string; spec: { name?: string } }>(
  objects: Objects<T>,
  object: T,
  signal: AbortSignal,
): Promise<void> {
  requireUnprotected(object);
  await objects.delete(object, signal);
  await objects.untilGone(object, DELETE_WAIT_MS, signal);
}

/** Creates an object once no object that is being deleted has its v3 name; 409 when another has it or that takes too long. */
export async function createNamed<T extends StoredObject & { spec: { name?: string } }>(
  objects: Pick<Objects<T, 'name'>, 'find' | 'read' | 'untilGone' | 'create'>,
  what: { kind: string; name?: string; waitsFor?: string },
  make: () => Promise<T>,
  signal: AbortSignal,
  save = (object: T) => objects.create(object, signal),
): Promise<T> {
  const until = performance.now() + NAME_WAIT_MS;
  const ended = async (holder: StoredObject) => {
    const now = await objects.read(holder.metadata.name, signal);
    if (!now) return;
    const name = what.name ?? holder.metadata.name;
    if (isPresent(now)) throw duplicateName(what.kind, name);
    if (await objects.untilGone(now, until - performance.now(), signal)) return;
    const message = `the ${what.kind} ${name} is being deleted, and ${what.waitsFor ?? 'it is still in use'}; try again`;
    throw new HttpError(409, 'BEING_DELETED', message, { headers: { 'retry-after': String(NAME_RETRY_AFTER) } });
  };
  for (;;) {
    for (const holder of what.name === undefined ? [] : objects.find('name', what.name)) await ended(holder);
    const object = await make();
    try {
      return await save(object);
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
      await ended(object);
    }
  }
}
