import type { KubeObject } from '../../../kube/mod.ts';

/**
 * Measures the time from a change to Ready. It starts when a generation of an object is first seen; objects that existed
 * before the controller started are not measured, since the age of their generation is unknown.
 */
export interface ReadyTimer {
  /** An object appeared, or has a new generation. */
  start(key: string, object: KubeObject): void;
  /** A status with Ready=True for the generation of this object was written. */
  stop(key: string, object: KubeObject): void;
  forget(key: string): void;
}

/** `observe` gets seconds; `clock` gives Unix ms. */
export function createReadyTimer(clock: () => number, observe: (seconds: number) => void): ReadyTimer {
  const running = new Map<string, { generation: number; since: number }>();
  return {
    start(key, { metadata: { generation = 0 } }) {
      const known = running.get(key);
      if (!known || known.generation < generation) running.set(key, { generation, since: clock() });
    },
    stop(key, { metadata: { generation = 0 } }) {
      const known = running.get(key);
      if (!known || known.generation > generation) return;
      running.delete(key);
      observe(Math.max(0, clock() - known.since) / 1000);
    },
    forget: (key) => void running.delete(key),
  };
}
