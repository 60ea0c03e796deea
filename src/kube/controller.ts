import type { Backoff } from './backoff.ts';
import type { Clock } from './clock.ts';
import type { KubeObject } from './object.ts';
import type { Outcome } from './outcome.ts';
import type { Log, Metrics } from './ports.ts';
import type { Change, Store } from './store.ts';

export interface ReconcileContext {
  /** Aborts at the deadline and on shutdown. Hand it to every call. */
  signal: AbortSignal;
  /** Carries controller, key and a run id. */
  log: Log;
  /** 1 for the first attempt since the last success. */
  attempt: number;
}

/** A store to listen to and how its changes translate to keys of this controller. Made by {@link watching}. */
export interface Watch {
  readonly store: Pick<Store<KubeObject>, 'whenSynced' | 'resource'>;
  /** Calls `enqueue` for all that is there and then for every change. */
  readonly start: (enqueue: (key: string, initial: boolean) => void) => Disposable;
}

/** The keys a change of another object touches. Look at `object` and `previous` both: {@link both} helps. */
export type MapToKeys<T> = (change: Change<T>) => Iterable<string>;

/** Own objects (`map` left out: the object's own key) or others that matter to ours. */
export function watching<T extends KubeObject>(_store: Store<T>, _map?: MapToKeys<T>): Watch {
  throw new Error('not written yet');
}

/** Maps the state before and the state after a change alike, so that what was left is reconciled as well. */
export function both<T>(keysOf: (object: T) => Iterable<string>): MapToKeys<T> {
  return (change) => [...keysOf(change.object), ...(change.previous ? keysOf(change.previous) : [])];
}

export interface ControllerOptions {
  /** Folder path, log key and metric label in one: `edge-node`. */
  name: string;
  watches: readonly Watch[];
  /** Level-triggered: gets a key, never an event. Must be idempotent. */
  reconcile: (key: string, context: ReconcileContext) => Promise<Outcome>;
  concurrency?: number;
  /** After which a run's signal aborts. */
  deadlineMs?: number;
  backoff?: Backoff;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Runs `reconcile` for every key that its watches name, once all their stores are synced.
 * Never one key twice at a time; a change during a run leads to another run.
 */
export interface Controller extends AsyncDisposable {
  readonly name: string;
  /** Asks for a run, for causes that no store shows. */
  enqueue(key: string, options?: { afterMs?: number }): void;
  /** Starts and resolves when `signal` aborted and the last run ended. */
  run(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is due or running. For tests. */
  whenIdle(): Promise<void>;
  /** Runs past their deadline that still hold their key. */
  readonly overdue: number;
}

export function createController(_options: ControllerOptions): Controller {
  throw new Error('not written yet');
}
