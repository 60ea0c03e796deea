import type { KubeClient } from './client.ts';
import type { Clock } from './clock.ts';
import type { KubeObject } from './object.ts';
import type { Log, Metrics } from './ports.ts';
import type { MutableStore, Store } from './store.ts';

export interface ReflectorOptions<T extends KubeObject> {
  client: KubeClient;
  store: MutableStore<T>;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
  random?: () => number;
}

/** Whether the mirror follows the API server right now, for readiness and for people. */
export interface ReflectorHealth {
  state: 'empty' | 'listing' | 'following' | 'retrying' | 'refused' | 'stopped';
  /** Since when, on the wall clock. */
  since: number;
  /** The latest trouble, kept until the next success. */
  lastError?: string;
}

/** Keeps a store equal to what the API server holds, whatever happens on the way. */
export interface Reflector<T extends KubeObject> extends AsyncDisposable {
  readonly store: Store<T>;
  readonly health: ReflectorHealth;
}

/** Starts mirroring; ends when `signal` aborts or the reflector is disposed. Never throws: it retries for ever. */
export function startReflector<T extends KubeObject>(
  _options: ReflectorOptions<T>,
  _signal?: AbortSignal,
): Reflector<T> {
  throw new Error('not written yet');
}
