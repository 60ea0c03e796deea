import { FIELD_MANAGERS } from '../api/names.ts';
import type { KubeClient, KubeObject, Resource } from '../kube/mod.ts';
import { refOf } from '../kube/mod.ts';

/** Metadata that the controller sets on an object: labels, and the finalizer before anything depends on it. Never its spec. */
export interface Stamps {
  finalizer?: string;
  labels?: Record<string, string>;
}

/**
 * Sets what is missing or different, in one write that fails with a conflict when another client wrote in between. When
 * nothing differs, nothing is written.
 */
export async function stamp<T extends KubeObject>(
  client: KubeClient,
  resource: Resource<T>,
  object: T,
  { finalizer, labels = {} }: Stamps,
  signal: AbortSignal,
): Promise<T> {
  const { finalizers = [], labels: known = {}, resourceVersion } = object.metadata;
  const addsFinalizer = finalizer !== undefined && !finalizers.includes(finalizer);
  const different = Object.entries(labels).filter(([key, value]) => known[key] !== value);
  if (!addsFinalizer && different.length === 0) return object;
  const metadata = {
    resourceVersion,
    ...(addsFinalizer && { finalizers: [...finalizers, finalizer] }),
    ...(different.length > 0 && { labels: Object.fromEntries(different) }),
  };
  return client.patch(
    resource,
    refOf(object),
    { type: 'merge', body: { metadata } },
    { signal, fieldManager: FIELD_MANAGERS.controller },
  );
}
