import type { KubeClient } from './client.ts';
import { type KubeObject, ownerReference, type Resource, refOf } from './object.ts';

export interface ApplyOptions {
  signal: AbortSignal;
  fieldManager: string;
}

/**
 * Makes an object of the cluster have these members, as a child of `owner`: it is created when absent, members that others set stay,
 * and it ends with its owner. An object that is equal already costs no write of the datastore. Resolves with undefined when
 * something else has the name: an object without this owner is left as it is.
 */
export async function applyOwned<T extends KubeObject>(
  client: Pick<KubeClient, 'find' | 'patch'>,
  resource: Resource<T>,
  owner: KubeObject,
  object: T,
  { signal, fieldManager }: ApplyOptions,
): Promise<T | undefined> {
  const present = await client.find(resource, refOf(object), { signal });
  if (present && !isOwnedBy(present, owner)) return undefined;
  const body = { ...object, metadata: { ...object.metadata, ownerReferences: [ownerReference(owner)] } };
  return client.patch(resource, refOf(object), { type: 'apply', body, force: true }, { signal, fieldManager });
}

/** Deletes a child of `owner`; an object of somebody else stays. */
export async function deleteOwned<T extends KubeObject>(
  client: Pick<KubeClient, 'find' | 'delete'>,
  resource: Resource<T>,
  owner: KubeObject,
  ref: { namespace: string; name: string },
  signal: AbortSignal,
): Promise<void> {
  const present = await client.find(resource, ref, { signal });
  const uid = present?.metadata.uid;
  if (!present || uid === undefined || !isOwnedBy(present, owner)) return;
  await client.delete(resource, ref, { signal, preconditions: { uid }, propagationPolicy: 'Background' });
}

/** After the restore of a backup the owner has another uid: its name and kind count. */
const isOwnedBy = ({ metadata: { ownerReferences = [] } }: KubeObject, { kind, metadata }: KubeObject): boolean =>
  ownerReferences.some((one) => one.kind === kind && one.name === metadata.name);
