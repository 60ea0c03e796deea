import type { KubeClient } from './client.ts';
import type { Clock } from './clock.ts';
import type { Log, Metrics } from './ports.ts';

export interface LeaseTimes {
  /** After how long without renewal others may take the lease. */
  durationMs: number;
  /** After how long without a confirmed renewal the leader stops. Must be shorter than `durationMs`. */
  renewDeadlineMs: number;
  /** Between attempts. */
  retryMs: number;
}

/** Who holds the lease, and what it told about itself (such as its internal address). */
export interface Holder {
  identity: string;
  data: Readonly<Record<string, string>>;
}

export interface ElectionOptions {
  client: KubeClient;
  namespace: string;
  name: string;
  /** Unique per process. */
  identity: string;
  /** Readable by everybody as {@link Holder.data}, stored in `dataAnnotation` as JSON. */
  data?: Record<string, string>;
  dataAnnotation: string;
  /** 15 s, 10 s, 2 s unless told. */
  times?: LeaseTimes;
  /** The leader's work. Must end soon after `signal` aborts; leadership is given up only then. */
  onStartedLeading: (signal: AbortSignal) => Promise<void>;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
  random?: () => number;
}

/**
 * Leader election by a coordination.k8s.io Lease.
 *
 * Guarantee: on each process's own monotonic clock a leader stops `durationMs - renewDeadlineMs` before another may
 * start. Assumption: processes measure a second alike; clocks need not agree.
 * Caveat: a process that sleeps past its deadline (a paused VM) learns of it only when it runs again; `isLeading` looks
 * at the clock, so ask it (see `KubeClient.fenced`) right before writing.
 */
export interface Election extends AsyncDisposable {
  readonly isLeading: boolean;
  /** As last seen; undefined while nobody holds an unexpired lease. */
  readonly holder: Holder | undefined;
  /** The present holder, then every change. Ends when the signal aborts. */
  holders(signal: AbortSignal): AsyncIterable<Holder | undefined>;
}

/** Takes part in the election until `signal` aborts or the election is disposed; then releases the lease. */
export function startElection(_options: ElectionOptions, _signal?: AbortSignal): Election {
  throw new Error('not written yet');
}
