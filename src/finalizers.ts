import { FINALIZERS } from './api/names.ts';
import type { Kinds } from './kinds/index.ts';
import {
  isNotFound,
  type KubeClient,
  type KubeObject,
  nameOf,
  type Resource,
  removeFinalizer,
  retryOnConflict,
} from './kube/mod.ts';

/**
 * Removes the finalizers of the controller from all objects of a namespace, once no controller works there any more: each
 * would keep its object, and the namespace, from ever being deleted. The objects themselves stay as they are, and a controller
 * that is installed again adds the finalizers again.
 */

const FIELD_MANAGER = 'skerry-uninstall';
const PATIENCE_MS = 60_000;
const OURS = Object.values(FINALIZERS);

/** Resolves with the number of objects that had finalizers, by resource. */
export async function removeFinalizers(
  client: KubeClient,
  kinds: Kinds,
  { namespace, signal = AbortSignal.timeout(PATIENCE_MS) }: { namespace: string; signal?: AbortSignal },
): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const { resource } of Object.values(kinds)) {
    const held = (await objectsOf(client, resource, namespace, signal)).filter(isHeld);
    for (const { metadata } of held)
      await retryOnConflict(() => free(client, resource, { namespace, name: metadata.name }, signal), { signal });
    counts.set(nameOf(resource), held.length);
  }
  return counts;
}

const isHeld = ({ metadata }: KubeObject) => OURS.some((one) => metadata.finalizers?.includes(one));

/** None where the CRD is gone already. */
async function objectsOf(client: KubeClient, resource: Resource, namespace: string, signal: AbortSignal) {
  try {
    return (await client.list(resource, { namespace, signal })).items;
  } catch (error) {
    if (isNotFound(error)) return [];
    throw error;
  }
}

async function free(
  client: KubeClient,
  resource: Resource,
  ref: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<void> {
  const options = { fieldManager: FIELD_MANAGER, signal };
  let object = await client.find(resource, ref, { signal });
  for (const finalizer of OURS)
    if (object) object = await removeFinalizer(client, resource, object, finalizer, options);
}
