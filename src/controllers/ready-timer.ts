import type { KubeObject } from '../kube/mod.ts';

/**
 * How long changes take to be Ready. Remembers when the present generation of an object was first seen, until its status
 * says Ready for it; what was there before nobody knows the age of, and nothing is said of it.
 */
export interface ReadyLag {
  /** An object appeared or changed; the first sight of it at a start is none of both. */
  changed(key: string, object: KubeObject): void;
  /** Its status was written; `ready` for the generation of this object. */
  judged(key: string, object: KubeObject, ready: boolean): void;
  gone(key: string): void;
}

/** `observe` gets seconds; `clock` tells Unix ms. */
export function createReadyLag(clock: () => number, observe: (seconds: number) => void): ReadyLag {
  const pending = new Map<string, { generation: number; since: number }>();
  return {
    changed(key, { metadata: { generation = 0 } }) {
      const known = pending.get(key);
      if (!known || known.generation < generation) pending.set(key, { generation, since: clock() });
    },
    judged(key, { metadata: { generation = 0 } }, ready) {
      const known = pending.get(key);
      if (!ready || !known || known.generation > generation) return;
      pending.delete(key);
      observe(Math.max(0, clock() - known.since) / 1000);
    },
    gone: (key) => void pending.delete(key),
  };
}
