import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject, Resource } from './object.ts';

export interface ApplierOptions {
  client: KubeClient;
  /** One per controller, so that ownership tells who wrote what. */
  fieldManager: string;
  /** Annotation for the hash of what we last applied; it shows that a field left our desired state. */
  hashAnnotation: string;
}

/**
 * Server-side apply of a child, only when needed: an apply that changes nothing costs the API server as much as a write.
 * `current` is the child as the store shows it. Write `desired` in the server's normal form (`data`, not `stringData`).
 */
export type Apply = <T extends KubeObject>(
  resource: Resource<T>,
  desired: T,
  current: T | undefined,
  options?: CallOptions,
) => Promise<{ object: T; written: boolean }>;

export function createApply(_options: ApplierOptions): Apply {
  throw new Error('not written yet');
}
