import type { CallOptions } from './call.ts';
import type { KubeClient } from './client.ts';
import { equal } from './compare.ts';
import { apiVersionOf, type KubeObject, type Resource } from './object.ts';

/**
 * Sets the status of `object`, as a whole, and sends nothing when it is equal. The request has uid and resource version: a status
 * computed from an old state leads to a conflict (409) and overwrites nothing. Resolves with the object after the write.
 */
export async function writeStatus<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  status: NonNullable<T['status']>,
  options: CallOptions & { fieldManager?: string } = {},
): Promise<{ object: T; written: boolean }> {
  if (equal(object.status, status)) return { object, written: false };
  const { name, namespace, uid, resourceVersion } = object.metadata;
  // Of a write of a status the API server reads nothing else. A patch costs it more: it makes the object before it applies it.
  const body = {
    apiVersion: apiVersionOf(resource),
    kind: resource.kind,
    metadata: { name, ...(namespace && { namespace }), uid, resourceVersion },
    status,
  };
  const updated = await client.replace(resource, body as KubeObject as T, { ...options, subresource: 'status' });
  return { object: updated, written: true };
}
