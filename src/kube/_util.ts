/** Helpers of the tests in this folder. */
import { createVirtualTime, type VirtualTime } from '../../hack/testing/virtual-time.ts';

export { settled as settle } from '../../hack/testing/virtual-time.ts';

import type { Clock } from '../lib/clock.ts';
import type { KubeObject, Resource } from './object.ts';

export interface ConfigMap extends KubeObject {
  data?: Record<string, string>;
}

export const CONFIG_MAPS: Resource<ConfigMap> = {
  group: '',
  version: 'v1',
  plural: 'configmaps',
  kind: 'ConfigMap',
  namespaced: true,
};

/** A ConfigMap as an API server returns it. */
export function makeConfigMap(
  name: string,
  version: number | string,
  rest: Partial<ConfigMap['metadata']> = {},
): ConfigMap {
  return {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: 'test', uid: `uid-${name}`, resourceVersion: String(version), ...rest },
    data: { version: String(version) },
  };
}

export interface VirtualClock extends Clock {
  /** Lets time pass; beside sockets it waits for the timers that are to ring (`VirtualTime`). */
  advance: VirtualTime['advance'];
}

/** `wall`: what the wall clock says at the start. */
export function createVirtualClock(wall = 1_800_000_000_000): VirtualClock {
  const start = 1_000;
  const time = createVirtualTime(start);
  return { now: () => time.now, wall: () => wall + time.now - start, after: time.after, advance: time.advance };
}

/** Resolves as soon as `condition` is true; the only way in which tests wait. The error names what it waited for. */
export async function until(what: string, condition: () => unknown, timeoutMs = 30_000): Promise<void> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    if (await condition()) return;
    if (performance.now() > end) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

/** A repeatable source of randomness (mulberry32). */
export function createRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}
