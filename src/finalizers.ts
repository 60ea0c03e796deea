import { FINALIZERS } from './api/names.ts';
import {
  groupResource,
  isNotFound,
  type KubeClient,
  type KubeObject,
  type Resource,
  refOf,
  removeFinalizer,
  retryOnConflict,
} from './kube/mod.ts';
import type { Kinds } from './subjects/kinds.ts';

/**
 * Removes the finalizers of the controller from all objects of a namespace, once no controller works there any more: each
 * would keep its object, and the namespace, from ever being deleted. The objects themselves stay as they are, and a controller
 * that is installed again adds the finalizers again.
 */

const FIELD_MANAGER = 'skerry-uninstall';
/** Less than the deadline of the job, and that less than what Helm waits for. */
const PATIENCE_MS = 240_000;
/** Objects that are freed at a time: with one after another, a large fleet would outlast the job. */
const AT_ONCE = 16;
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
    const rest = held.values();
    const freeRest = async () => {
      for (const object of rest) await free(client, resource, object, signal);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, freeRest));
    counts.set(groupResource(resource), held.length);
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

/** From the object as it was listed; only one that has changed since is read again. */
async function free(client: KubeClient, resource: Resource, listed: KubeObject, signal: AbortSignal): Promise<void> {
  const options = { fieldManager: FIELD_MANAGER, signal };
  let known: KubeObject | undefined = listed;
  const attempt = async () => {
    let object = known ?? (await client.find(resource, refOf(listed), { signal }));
    known = undefined;
    for (const finalizer of OURS)
      if (object) object = await removeFinalizer(client, resource, object, finalizer, options);
  };
  await retryOnConflict(attempt, { signal });
}
