import type { Observation } from '../../domain/inputs.ts';
import { type Backoff, backoffDelay, type Clock, type Log } from '../../kube/mod.ts';
import type { AgentMetrics, LeaderApi, Leadership, ObservationDelta, Observations } from '../dependencies.ts';
import { LeaderError } from './leader-error.ts';
import { type MergeReport, mergeSentRevisions, waitAfter } from './observations.ts';

/**
 * What this replica hears of nodes, on its way to the leader.
 *
 * - While it leads, straight into its own observations.
 * - Else in batches, the latest per node; what the leader could not take now stays, merged with what comes later.
 * - What the leader refuses is told in halves until the one is found that it is about, whose report is left out.
 * - A leader that has just begun is told again all that was ever heard here: it remembers nothing of it.
 */
export interface ObservationForwarder extends AsyncDisposable {
  observe(delta: ObservationDelta): void;
  /** False while a report of this node would be the first one here: the agent is then asked for all of it. */
  hasReport(uuid: string): boolean;
  /** The latest of what was heard here. */
  latest(uuid: string): ObservationDelta | undefined;
  forget(uuid: string): void;
  /** Takes notice of who leads now; before anything is heard from elsewhere. */
  settle(): void;
  /** Resolves when the leader has everything, or when the time is up. */
  flush(timeoutMs: number): Promise<void>;
}

export interface ObservationForwarderOptions {
  leadership: Leadership;
  leader: LeaderApi;
  observations: Observations & { clear(): void };
  mergeReport: MergeReport;
  clock: Clock;
  log: Log;
  metrics?: AgentMetrics;
  random?: () => number;
  batchMs?: number;
  /** nodes in one batch */
  batchSize?: number;
}

const RETRY: Backoff = { baseMs: 200, factor: 2, maxMs: 5_000, jitter: 0.5 };
const SEND_MS = 10_000;
/** Of one batch: the leader takes eight times as much, and a single report is no longer than this. */
const BATCH_BYTES = 4 * 2 ** 20;
/** Of news without a report. */
const CONTACT_BYTES = 512;

export function createObservationForwarder(options: ObservationForwarderOptions): ObservationForwarder {
  const { leadership, leader, observations, mergeReport, clock, log, metrics = {} } = options;
  const { random = Math.random, batchMs = 200, batchSize = 500 } = options;
  /** not yet with the leader */
  const waiting = new Map<string, ObservationDelta>();
  /** what the leader refused, in parts that it may take */
  let parts: ObservationDelta[][] = [];
  /** everything heard here, while another replica leads */
  const observed = new Map<string, ObservationDelta>();
  const idle = new Set<() => void>();
  const ended = new AbortController();
  let wasLeading = false;
  /** the term of leadership that has all of `heard` but what waits */
  let forwardedTo: string | undefined;
  let cancel: (() => void) | undefined;
  let sending = false;
  let failures = 0;

  /** Leadership may have changed since the last look. */
  function settle() {
    const leads = leadership.isLeading;
    if (leads === wasLeading) return;
    wasLeading = leads;
    if (leads) {
      observations.clear();
      for (const delta of observed.values()) observations.observe(delta);
      observed.clear();
      waiting.clear();
      parts = [];
      return finish();
    }
    for (const [uuid, observation] of observations.entries()) observed.set(uuid, deltaOf(uuid, observation));
  }

  /** A term that we have not spoken to yet has heard nothing of us but this batch: what is more goes next. */
  function meet(leadershipId: string, batch: readonly ObservationDelta[]) {
    if (forwardedTo === leadershipId) return;
    forwardedTo = leadershipId;
    const sent = new Set(batch);
    for (const [uuid, delta] of observed) if (!sent.has(delta)) waiting.set(uuid, delta);
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
    const batch = takeBatch();
    if (batch.length === 0) return finish();
    sending = true;
    try {
      const { leadershipId } = await leader.send(batch, AbortSignal.any([ended.signal, AbortSignal.timeout(SEND_MS)]));
      failures = 0;
      meet(leadershipId, batch);
      metrics.agent?.('delta-batch', 'sent');
    } catch (error) {
      metrics.agent?.('delta-batch', 'failed');
      if (error instanceof LeaderError && error.code === 'REFUSED') isolate(batch, error);
      else {
        failures++;
        if (failures === 3) log.warn({ err: error, leader: address }, 'Leader does not take news');
        for (const delta of batch) keepWaiting(delta);
      }
    } finally {
      sending = false;
    }
    if (waiting.size === 0 && parts.length === 0) finish();
    else schedule(failures > 0 ? backoffDelay(RETRY, failures, random) : 0);
  }

  function takeBatch(): ObservationDelta[] {
    const part = parts.pop();
    if (part) return part;
    const batch: ObservationDelta[] = [];
    let bytes = 0;
    for (const [uuid, delta] of waiting) {
      bytes += bytesOf(delta);
      if (batch.length >= batchSize || (bytes > BATCH_BYTES && batch.length > 0)) break;
      batch.push(delta);
      waiting.delete(uuid);
    }
    return batch;
  }

  /** One node must not keep the others silent: the batch is halved until only what it said is left, and left out. */
  function isolate(batch: readonly ObservationDelta[], error: LeaderError) {
    const middle = Math.ceil(batch.length / 2);
    const [delta] = batch;
    if (batch.length > 1) parts.push(batch.slice(middle), batch.slice(0, middle));
    else if (delta) {
      metrics.agent?.('delta-refused');
      log.warn({ node: delta.uuid, reason: error.message }, 'The leader refuses what a node said: it is left out');
      const known = observed.get(delta.uuid);
      if (!known) return;
      // Without a report here the agent is asked for a whole one; what it said since is part of that.
      const contact = contactOf(known);
      observed.set(delta.uuid, contact);
      if (bytesOf(delta) > CONTACT_BYTES) waiting.set(delta.uuid, contact);
      else waiting.delete(delta.uuid);
    }
  }

  /** Back into the queue, below what came meanwhile. */
  function keepWaiting(delta: ObservationDelta) {
    if (!observed.has(delta.uuid)) return;
    const later = waiting.get(delta.uuid);
    waiting.set(delta.uuid, later ? mergeDeltas(delta, later, mergeReport) : delta);
  }

  function finish() {
    for (const resolve of idle) resolve();
    idle.clear();
  }

  return {
    settle,
    observe(delta) {
      settle();
      if (wasLeading) return observations.observe(delta);
      const { uuid } = delta;
      const known = observed.get(uuid);
      observed.set(uuid, known ? mergeDeltas(known, delta, mergeReport) : delta);
      const before = waiting.get(uuid);
      waiting.set(uuid, before ? mergeDeltas(before, delta, mergeReport) : delta);
      schedule(batchMs);
    },
    hasReport(uuid) {
      settle();
      return (wasLeading ? observations.get(uuid) : observed.get(uuid))?.reportedAt !== undefined;
    },
    latest: (uuid) => observed.get(uuid),
    forget(uuid) {
      observed.delete(uuid);
      waiting.delete(uuid);
      observations.forget(uuid);
    },
    async flush(timeoutMs) {
      settle();
      if (wasLeading || (waiting.size === 0 && parts.length === 0 && !sending)) return;
      await new Promise<void>((resolve) => {
        const cancelTimer = clock.after(timeoutMs, resolve);
        idle.add(() => {
          cancelTimer();
          resolve();
        });
        cancel?.();
        cancel = undefined;
        if (!sending) void send();
      });
    },
    async [Symbol.asyncDispose]() {
      ended.abort();
      cancel?.();
      finish();
    },
  };
}

const bytesOf = (delta: ObservationDelta) => {
  const { report, sentRevisions, settings } = delta;
  return report || sentRevisions || settings
    ? CONTACT_BYTES + JSON.stringify([report, sentRevisions, settings]).length
    : CONTACT_BYTES;
};

/** That it was heard of, and nothing of what it said. */
function contactOf({
  report: _,
  reportedAt: __,
  settings: ___,
  sentRevisions: ____,
  ...contact
}: ObservationDelta): ObservationDelta {
  return contact;
}

function mergeDeltas(older: ObservationDelta, newer: ObservationDelta, mergeReport: MergeReport): ObservationDelta {
  const report =
    older.report && newer.report ? mergeReport(older.report, newer.report) : (newer.report ?? older.report);
  const reportedAt = newer.reportedAt ?? older.reportedAt;
  const sentRevisions = mergeSentRevisions(older.sentRevisions, newer.sentRevisions);
  const restored = newer.restored ?? older.restored;
  // Settings that a later report has whole are in it already.
  const settings = { ...(newer.report?.config ? {} : older.settings), ...newer.settings };
  return {
    ...newer,
    waitSeconds: waitAfter(older, newer),
    ...(older.isReset && { isReset: true as const }),
    ...(report && { report }),
    ...(reportedAt !== undefined && { reportedAt }),
    ...(sentRevisions && { sentRevisions }),
    ...(restored !== undefined && { restored }),
    ...(Object.keys(settings).length > 0 && { settings }),
  };
}

/** What a former leader knew, as news for the next. */
function deltaOf(uuid: string, observation: Observation): ObservationDelta {
  const { report, reportedAt, contactAt = 0, waitSeconds, agent, instances, sentRevisions, restored } = observation;
  const latest = Object.entries(instances).sort(([, a], [, b]) => b.seenAt - a.seenAt)[0];
  return {
    uuid,
    contactAt,
    waitSeconds,
    ...(agent !== undefined && { agent }),
    ...(latest && { instance: latest[0].split('#')[0], boot: latest[1].boot }),
    ...(reportedAt !== undefined && { report, reportedAt }),
    ...(restored !== undefined && { restored }),
    sentRevisions,
  };
}
