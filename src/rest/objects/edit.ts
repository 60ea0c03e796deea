import { retryOnConflict } from '../../kube/update.ts';
import type { Objects, StoredObject } from '../contract/dependencies.ts';

/**
 * Reads an object, changes it, writes it, and retries after a conflict, so that no write is lost. `change` may run several
 * times; nothing is written when it returns the same object. Resolves with the stored object.
 */
export async function edit<T extends StoredObject>(
  objects: Objects<T>,
  read: () => Promise<T>,
  change: (current: T) => T | Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  const attempt = async () => {
    const current = await read();
    const changed = await change(current);
    return changed === current ? current : objects.replace(changed, signal);
  };
  return retryOnConflict(attempt, { signal });
}

/** The object with other spec or annotations. */
export function withChanges<T extends StoredObject & { spec: unknown }>(
  object: T,
  { spec = object.spec, annotations = {} }: { spec?: T['spec']; annotations?: Record<string, string> },
): T {
  return {
    ...object,
    metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...annotations } },
    spec,
  };
}
