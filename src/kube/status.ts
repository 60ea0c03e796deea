import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject, Resource } from './object.ts';

/**
 * Makes the status of `object` equal to `status`, writing only when it differs and only the difference (merge patch).
 * Guarded by uid and resource version: a status computed from an old state is a conflict (409), never an overwrite.
 * Resolves with the object as it is afterwards.
 */
export function writeStatus<T extends KubeObject>(
  _client: KubeClient,
  _resource: Resource<T>,
  _object: T,
  _status: NonNullable<T['status']>,
  _options?: CallOptions & { fieldManager?: string },
): Promise<{ object: T; written: boolean }> {
  throw new Error('not written yet');
}
