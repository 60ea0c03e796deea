import { createHash } from 'node:crypto';
import type { CallOptions } from './call.ts';
import type { KubeClient } from './client.ts';
import { canonical, covers } from './compare.ts';
import { type KubeObject, keyOf, type Resource, refOf } from './object.ts';

export interface ApplierOptions {
  client: KubeClient;
  /** One per controller, so that `managedFields` shows which controller wrote a field. */
  fieldManager: string;
  /** Annotation with the hash of what was last applied; a field that was removed from the desired state changes it. */
  hashAnnotation: string;
}

/**
 * Server-side apply of a child object, only when needed: an apply that changes nothing costs the API server as much as a
 * write.
 *
 * It is needed when there is no child, when `desired` changed, or when another client changed fields that this field
 * manager owns. `current` is the child as the store has it. `desired` must have the server's normal form (`data`, not
 * `stringData`; `1Gi`, not `1024Mi`), or {@link covers} returns false and every run applies it. Needs no resource version.
 * Throws {@link ForeignChildError} when a child of that name has another controller.
 */
export type Apply = <T extends KubeObject>(
  resource: Resource<T>,
  desired: T,
  current: T | undefined,
  options?: CallOptions,
) => Promise<{ object: T; written: boolean }>;

export function createApply({ client, fieldManager, hashAnnotation }: ApplierOptions): Apply {
  return async (resource, desired, current, options = {}) => {
    const hash = createHash('sha256').update(canonical(desired)).digest('base64url').slice(0, 16);
    const annotations = { ...desired.metadata.annotations, [hashAnnotation]: hash };
    const body = { ...desired, metadata: { ...desired.metadata, annotations } };
    if (current) {
      assertOurs(desired, current);
      if (covers(current, body)) return { object: current, written: false };
    }
    const patch = { type: 'apply' as const, body, force: true };
    return { object: await client.patch(resource, refOf(desired), patch, { ...options, fieldManager }), written: true };
  };
}

/** An object with the name of the child exists and has another controller. The conflict needs a decision by a user. */
export class ForeignChildError extends Error {
  override readonly name = 'ForeignChildError';
  readonly code = 'KUBE_FOREIGN_CHILD';
}

function assertOurs(desired: KubeObject, current: KubeObject): void {
  const wanted = controllerOf(desired);
  const actual = controllerOf(current);
  if (wanted && actual && wanted.uid !== actual.uid) {
    throw new ForeignChildError(`${desired.kind} ${keyOf(desired)} is controlled by ${actual.kind} ${actual.name}`);
  }
}

const controllerOf = (object: KubeObject) => object.metadata.ownerReferences?.find((owner) => owner.controller);
