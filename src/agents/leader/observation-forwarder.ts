import { type Backoff, backoffDelay } from '../../lib/backoff.ts';
import type { Clock } from '../../lib/clock.ts';
import type { Log } from '../../lib/log.ts';
import type { LeaderState } from '../../replicas/channel.ts';
import { LeaderError } from '../../replicas/leader-error.ts';
import type { AgentRouteMetrics, LeaderApi, ObservationDelta, Observations } from '../channel/dependencies.ts';
import { createDeltaQueue } from './delta-queue.ts';
import { deltaOf } from './observation-delta.ts';
import type { MergeReport } from './observations.ts';

/**
 * Forwards what this replica observes of nodes to the leader.
 *
 * - While this replica leads, the deltas go into its own observations.
 * - Otherwise they are sent in batches, one merged delta per node; after a failure they are merged with later deltas.
 * - A batch that the leader refuses is halved until the refused delta is found, whose report is left out.
 * - A leader that has just begun gets everything that this replica has observed so far.
 *
 * The factory is longer than most: one loop, whose timer and flags all its functions share.
 */
export interface ObservationForwarder extends AsyncDisposable {
  observe(delta: ObservationDelta): void;
  /** False as long as this replica has no report of the node: it then requests a full one from the agent. */
  hasReport(uuid: string): boolean;
  /** Everything observed here of a node. */
  latest(uuid: string): ObservationDelta | undefined;
  forget(uuid: string): void;
  /** Adapts to a change of leadership; call it before observations of other replicas are used. */
  settle(): void;
  /** Resolves when the leader has everything, or after `timeoutMs`. */
  flush(timeoutMs: number): Promise<void>;
  /** Resolves when the leader has everything that was observed of the node until now, or after `timeoutMs`. */
  forwarded(uuid: string, timeoutMs: number): Promise<void>;
}

export interface ObservationForwarderOptions {
  leadership: LeaderState;
  leader: LeaderApi;
  observations: Observations & { clear(): void };
  mergeReport: MergeReport;
  clock: Clock;
  log: Log;
  metrics?: AgentRouteMetrics;
  random?: () => number;
  batchMs?: number;
  /** nodes in one batch */
  batchSize?: number;
}

const RETRY: Backoff = { baseMs: 200, factor: 2, maxMs: 5_000, jitter: 0.5 };
const SEND_MS = 10_000;

export function createObservationForwarder(options: ObservationForwarderOptions): ObservationForwarder {
  const { leadership, leader, observations, mergeReport, clock, log, metrics = {} } = options;
  const { random = Math.random, batchMs = 200, batchSize = 500 } = options;
  const queue = createDeltaQueue({ mergeReport, batchSize });
  /** each resolves once its condition is true, which only a message to the leader makes so */
  const waiting = new Map<() => void, () => boolean>();
  const ended = new AbortController();
  let wasLeading = false;
  /** the leadership that has all deltas of the queue except the waiting ones */
  let forwardedTo: string | undefined;
  let cancel: (() => void) | undefined;
  let sending = false;
  let failures = 0;

  function settle() {
    const leads = leadership.isLeading;
    if (leads === wasLeading) return;
    wasLeading = leads;
    if (leads) {
      observations.clear();
      for (const delta of queue.values()) observations.observe(delta);
      queue.clear();
      return finish();
    }
    for (const [uuid, observation] of observations.entries()) queue.record(deltaOf(uuid, observation));
  }

  function schedule(ms: number) {
    if (cancel || sending || ended.signal.aborted) return;
    cancel = clock.after(ms, () => {
      cancel = undefined;
      void send();
    });
  }

  async function send(): Promise<void> {
    settle();
    if (wasLeading) return;
    const address = leadership.leaderAddress;
    if (address === undefined) return schedule(batchMs);
    const batch = queue.take();
    if (batch.length === 0) return finish();
    sending = true;
    try {
      const { leadershipId } = await leader.send(batch, AbortSignal.any([ended.signal, AbortSignal.timeout(SEND_MS)]));
      failures = 0;
      if (forwardedTo !== leadershipId) queue.requeueAllBut(batch);
      forwardedTo = leadershipId;
      metrics.agent?.('delta-batch', 'sent');
    } catch (error) {
      metrics.agent?.('delta-batch', 'failed');
      if (error instanceof LeaderError && error.code === 'REFUSED') refused(batch, error);
      else {
        failures++;
        if (failures === 3) log.warn({ err: error, leader: address }, 'The leader does not accept observations');
        queue.putBack(batch);
      }
    } finally {
      sending = false;
    }
    resolveWaiting();
    if (!queue.isEmpty) schedule(failures > 0 ? backoffDelay(RETRY, failures, random) : 0);
  }

  function refused(batch: readonly ObservationDelta[], error: LeaderError) {
    const leftOut = queue.split(batch);
    if (!leftOut) return;
    metrics.agent?.('delta-refused');
    log.warn({ node: leftOut.uuid, reason: error.message }, 'The leader refuses the report of a node: it is left out');
  }

  function resolveWaiting() {
    for (const [resolve, isDone] of waiting) {
      if (!isDone()) continue;
      waiting.delete(resolve);
      resolve();
    }
  }

  function finish() {
    for (const resolve of waiting.keys()) resolve();
    waiting.clear();
  }

  /** Resolves when `isDone` after a message to the leader, which is sent at once, or after `timeoutMs`. */
  async function until(isDone: () => boolean, timeoutMs: number, { keepsBackoff = false } = {}): Promise<void> {
    settle();
    if (wasLeading || (isDone() && !sending)) return;
    await new Promise<void>((resolve) => {
      const done = () => {
        cancelTimer();
        resolve();
      };
      const cancelTimer = clock.after(timeoutMs, () => {
        waiting.delete(done);
        resolve();
      });
      waiting.set(done, isDone);
      if (keepsBackoff && failures > 0) return;
      cancel?.();
      cancel = undefined;
      if (!sending) void send();
    });
  }

  return {
    settle,
    observe(delta) {
      settle();
      if (wasLeading) return observations.observe(delta);
      queue.add(delta);
      schedule(batchMs);
    },
    hasReport(uuid) {
      settle();
      return (wasLeading ? observations.get(uuid) : queue.get(uuid))?.reportedAt !== undefined;
    },
    latest: queue.get,
    forget(uuid) {
      queue.forget(uuid);
      observations.forget(uuid);
    },
    flush: (timeoutMs) => until(() => queue.isEmpty, timeoutMs),
    forwarded: (uuid, timeoutMs) => until(() => !queue.isWaiting(uuid), timeoutMs, { keepsBackoff: true }),
    async [Symbol.asyncDispose]() {
      ended.abort();
      cancel?.();
      finish();
    },
  };
}
