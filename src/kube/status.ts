import type { CallOptions } from './call.ts';
import type { KubeClient } from './client.ts';
import { mergeDiff } from './compare.ts';
import { type KubeObject, type Resource, refOf } from './object.ts';

/**
 * Sets the status of `object`. It writes only the difference, as a merge patch, and nothing when there is none. The patch
 * has uid and resource version: a status computed from an old state leads to a conflict (409) and overwrites nothing.
 * Resolves with the object after the write.
 */
export async function writeStatus<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  status: NonNullable<T['status']>,
  options: CallOptions & { fieldManager?: string } = {},
): Promise<{ object: T; written: boolean }> {
  const difference = mergeDiff(object.status, status);
  if (difference === undefined) return { object, written: false };
  const { uid, resourceVersion } = object.metadata;
  const body = { metadata: { uid, resourceVersion }, status: difference };
  const updated = await client.patch(
    resource,
    refOf(object),
    { type: 'merge', body },
    { ...options, subresource: 'status' },
  );
  return { object: updated, written: true };
}
