import { retryOnConflict } from '../kube/update.ts';
import type { Objects, StoredObject } from './dependencies.ts';

/**
 * Reads an object, changes it, writes it, and starts again when another writer was faster: no write is lost, neither ours
 * nor theirs. `change` may run several times; returning the very object it was given writes nothing.
 * Resolves with what is stored afterwards.
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
