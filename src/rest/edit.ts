import { setTimeout as sleep } from 'node:timers/promises';
import { isConflict } from '../kube/api-error.ts';
import type { Objects, StoredObject } from './dependencies.ts';

/** Attempts until a writer gives up; each lost one means that somebody else's write succeeded. */
const ATTEMPTS = 50;

/**
 * Reads an object, changes it, writes it, and starts anew when somebody wrote in between: no write is lost, neither ours
 * nor theirs. `change` may run several times; returning the very object it was given writes nothing.
 * Resolves with what is stored afterwards.
 */
export async function edit<T extends StoredObject>(
  objects: Objects<T>,
  read: () => Promise<T>,
  change: (current: T) => T | Promise<T>,
  signal: AbortSignal,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const current = await read();
    const changed = await change(current);
    if (changed === current) return current;
    try {
      return await objects.replace(changed, signal);
    } catch (error) {
      if (!isConflict(error) || attempt >= ATTEMPTS) throw error;
      await sleep(Math.random() * Math.min(10 * attempt, 100), undefined, { signal });
    }
  }
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
