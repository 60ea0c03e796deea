import { FIELD_MANAGERS } from '../api/names.ts';
import type { KubeClient, KubeObject, Resource } from '../kube/mod.ts';
import { refOf } from '../kube/mod.ts';

/** What the controller itself sets on an object: identity, and the finalizer before anything depends on it. */
export interface Stamps {
  finalizer?: string;
  spec?: Record<string, string | number>;
}

/**
 * Sets what is missing, in one write that fails with a conflict when somebody wrote in between. Without anything to set
 * nothing is written.
 */
export async function stamp<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  stamps: Stamps,
  signal: AbortSignal,
): Promise<T> {
  const { finalizer, spec = {} } = stamps;
  const finalizers = object.metadata.finalizers ?? [];
  const addsFinalizer = finalizer !== undefined && !finalizers.includes(finalizer);
  if (!addsFinalizer && Object.keys(spec).length === 0) return object;
  const body = {
    metadata: {
      resourceVersion: object.metadata.resourceVersion,
      ...(addsFinalizer && { finalizers: [...finalizers, finalizer] }),
    },
    ...(Object.keys(spec).length > 0 && { spec }),
  };
  return client.patch(
    resource,
    refOf(object),
    { type: 'merge', body },
    { signal, fieldManager: FIELD_MANAGERS.controller },
  );
}
