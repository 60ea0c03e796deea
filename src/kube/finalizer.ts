import { ApiError, isInvalid, isNotFound } from './api-error.ts';
import type { CallOptions, JsonPatchOperation, KubeClient } from './client.ts';
import { isEnded, type KubeObject, type Resource, refOf } from './object.ts';

/**
 *                 | not being deleted        | being deleted
 *   without ours  | `add` (then come back)   | `gone` (nothing left for us)
 *   with ours     | `apply`                  | `cleanup`, then remove
 */
export type FinalizerState = 'add' | 'apply' | 'cleanup' | 'gone';

export function finalizerState(object: KubeObject, finalizer: string): FinalizerState {
  const ours = object.metadata.finalizers?.includes(finalizer) ?? false;
  if (object.metadata.deletionTimestamp) return ours ? 'cleanup' : 'gone';
  return ours ? 'apply' : 'add';
}

/**
 * Adds a finalizer; a no-op when it is there. Add it alone and return: the change brings the key back. Conflict (409)
 * when the list of finalizers changed since the object was read, or the object is another one by now.
 */
export async function addFinalizer<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  finalizer: string,
  options: CallOptions = {},
): Promise<T> {
  const { finalizers = [] } = object.metadata;
  if (finalizers.includes(finalizer)) return object;
  const body: JsonPatchOperation[] =
    finalizers.length === 0
      ? [
          sameObject(object),
          { op: 'test', path: '/metadata/finalizers', value: null },
          { op: 'add', path: '/metadata/finalizers', value: [finalizer] },
        ]
      : [
          sameObject(object),
          { op: 'test', path: '/metadata/finalizers', value: finalizers },
          { op: 'add', path: '/metadata/finalizers/-', value: finalizer },
        ];
  return patchTested(client, resource, object, body, options);
}

/**
 * Removes a finalizer, which may end the object; a no-op when either is gone already. Conflict (409) when the list
 * changed since the object was read. Resolves with what is left: undefined when that is known to be nothing.
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

/** Of two objects that have followed each other under one name, only the one we read is meant. */
function sameObject({ metadata }: KubeObject): JsonPatchOperation {
  return { op: 'test', path: '/metadata/uid', value: metadata.uid };
}

/** A failed `test` comes back as 422; to the caller it is what it means: somebody was faster. */
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
    // A finalizer that validation refuses names the field; a failed test names none.
    if (!isInvalid(error) || error.details.causes?.length) throw error;
    throw new ApiError(409, { reason: 'Conflict', message: error.message }, 'patch finalizers');
  }
}
