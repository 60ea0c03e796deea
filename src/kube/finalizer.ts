import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject, Resource } from './object.ts';

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

/** Adds a finalizer; a no-op when it is there. Conflict (409) when the object changed since it was read. */
export function addFinalizer<T extends KubeObject>(
  _client: KubeClient,
  _resource: Resource<T>,
  _object: T,
  _finalizer: string,
  _options?: CallOptions,
): Promise<T> {
  throw new Error('not written yet');
}

/** Removes a finalizer; a no-op when it or the object is gone. Conflict (409) when the list changed meanwhile. */
export function removeFinalizer<T extends KubeObject>(
  _client: KubeClient,
  _resource: Resource<T>,
  _object: T,
  _finalizer: string,
  _options?: CallOptions,
): Promise<T | undefined> {
  throw new Error('not written yet');
}
