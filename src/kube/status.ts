import type { CallOptions, KubeClient } from './client.ts';
import { mergeDiff } from './compare.ts';
import { type KubeObject, type Resource, refOf } from './object.ts';

/**
 * Makes the status of `object` equal to `status`, writing only when it differs and only the difference (merge patch).
 * Guarded by uid and resource version: a status computed from an old state is a conflict (409), never an overwrite.
 * Resolves with the object as it is afterwards.
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
