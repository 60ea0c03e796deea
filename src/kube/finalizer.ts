import { ApiError, isInvalid, isNotFound } from './api-error.ts';
import type { CallOptions } from './call.ts';
import type { JsonPatchOperation, KubeClient } from './client.ts';
import { isEnded, type KubeObject, type Resource, refOf } from './object.ts';

/**
 * Removes a finalizer, which may end the object; a no-op when the finalizer or the object is gone already. Conflict (409)
 * when the list changed since the object was read. Resolves with the object, or with undefined when the object is gone.
 */
export async function removeFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  finalizer: string,
  options: CallOptions = {},
): Promise<T | undefined> {
  const index = object.metadata.finalizers?.indexOf(finalizer) ?? -1;
  if (index < 0) return object;
  const path = `/metadata/finalizers/${index}`;
  const body: JsonPatchOperation[] = [
    sameObject(object),
    { op: 'test', path, value: finalizer },
    { op: 'remove', path },
  ];
  try {
    const left = await patchTested(client, resource, object, body, options);
    return isEnded(left) ? undefined : left;
  } catch (error) {
    if (isNotFound(error)) return undefined;
    throw error;
  }
}

/** The patch applies only to the object that was read, not to a later object with the same name. */
function sameObject({ metadata }: KubeObject): JsonPatchOperation {
  return { op: 'test', path: '/metadata/uid', value: metadata.uid };
}

/** A failed `test` leads to a 422; the caller gets a conflict, since another writer was faster. */
async function patchTested<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  body: readonly JsonPatchOperation[],
  options: CallOptions,
): Promise<T> {
  try {
    return await client.patch(resource, refOf(object), { type: 'json', body }, options);
  } catch (error) {
    // The error for an invalid finalizer has causes that name the field; that of a failed `test` has none.
    if (!isInvalid(error) || error.details.causes?.length) throw error;
    throw new ApiError(409, { reason: 'Conflict', message: error.message }, 'patch finalizers');
  }
}
