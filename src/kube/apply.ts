import { createHash } from 'node:crypto';
import type { CallOptions, KubeClient } from './client.ts';
import { canonical, covers } from './compare.ts';
import { type KubeObject, keyOf, type Resource, refOf } from './object.ts';

export interface ApplierOptions {
  client: KubeClient;
  /** One per controller, so that ownership tells who wrote what. */
  fieldManager: string;
  /** Annotation for the hash of what we last applied; it shows that a field left our desired state. */
  hashAnnotation: string;
}

/**
 * Server-side apply of a child, only when needed: an apply that changes nothing costs the API server as much as a write.
 *
 * It is needed when there is no child, when our desired state changed, or when another client changed fields that we own.
 * `current` is the child as the store shows it. Write `desired` in the server's normal form (`data`, not `stringData`;
 * `1Gi`, not `1024Mi`), or it never looks covered and is applied on every run. Needs no resource version.
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

/** A child of the name we want exists and belongs to another owner: a person has to decide. */
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
