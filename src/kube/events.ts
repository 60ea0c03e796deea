import type { KubeClient } from './client.ts';
import type { Clock } from './clock.ts';
import type { KubeObject } from './object.ts';
import type { Log, Metrics } from './ports.ts';

export interface EventOptions {
  client: KubeClient;
  /** `skerry.dev/controller`: who reports. */
  controller: string;
  /** Which process: the pod's name. */
  instance: string;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
}

/** One sentence about a change, for people. */
export interface EventInput {
  type: 'Normal' | 'Warning';
  /** What happened, in one CamelCase word: equals the condition's reason. */
  reason: string;
  /** What we did or tried: `Deploy`, `Reconcile`. */
  action: string;
  note: string;
  /** What this is a transition of (a condition's type). Repeating the last event about it is silence. Default: reason. */
  about?: string;
}

/**
 * Records Kubernetes Events (events.k8s.io/v1): one per transition, rate limited per object and overall.
 * Returns at once; a failure is counted and never reaches the caller.
 */
export interface EventRecorder extends AsyncDisposable {
  record(regarding: KubeObject, event: EventInput): void;
}

export function createEventRecorder(_options: EventOptions): EventRecorder {
  throw new Error('not written yet');
}
