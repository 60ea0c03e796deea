import type { ObservationDelta } from '../channel/dependencies.ts';
import { bytesOf, CONTACT_BYTES, contactOf, mergeDeltas } from './observation-delta.ts';
import type { MergeReport } from './observations.ts';

/** The deltas of this replica: everything observed here, and the part that the leader does not have yet. */
export interface DeltaQueue {
  /** Everything observed of a node here, merged. */
  get(uuid: string): ObservationDelta | undefined;
  values(): Iterable<ObservationDelta>;
  /** True when no delta waits for the leader. */
  readonly isEmpty: boolean;
  /** Whether a delta of the node waits for the leader. */
  isWaiting(uuid: string): boolean;
  add(delta: ObservationDelta): void;
  /** Records a delta without queuing it for the leader. */
  record(delta: ObservationDelta): void;
  /** Takes the next batch; empty when nothing waits. */
  take(): ObservationDelta[];
  /** Puts a batch that was not sent back, merged with later deltas. */
  putBack(batch: readonly ObservationDelta[]): void;
  /**
   * Halves a batch that the leader refused. A single delta is reduced to its contact, so that one node does not block the
   * others, and is returned.
   */
  split(batch: readonly ObservationDelta[]): ObservationDelta | undefined;
  /** Queues everything except this batch: a leader that has just begun has no observations of this replica. */
  requeueAllBut(batch: readonly ObservationDelta[]): void;
  forget(uuid: string): void;
  clear(): void;
}

/** Bytes of one batch: the leader accepts eight times as much, and a single report is no longer than this. */
const BATCH_BYTES = 4 * 2 ** 20;

/** `batchSize`: nodes in one batch */
export function createDeltaQueue({
  mergeReport,
  batchSize,
}: {
  mergeReport: MergeReport;
  batchSize: number;
}): DeltaQueue {
  const observed = new Map<string, ObservationDelta>();
  const waiting = new Map<string, ObservationDelta>();
  /** halves of refused batches */
  let halves: ObservationDelta[][] = [];

  const merged = (older: ObservationDelta | undefined, newer: ObservationDelta) =>
    older ? mergeDeltas(older, newer, mergeReport) : newer;

  return {
    get: (uuid) => observed.get(uuid),
    values: () => observed.values(),
    get isEmpty() {
      return waiting.size === 0 && halves.length === 0;
    },
    isWaiting: (uuid) => waiting.has(uuid) || halves.some((half) => half.some((delta) => delta.uuid === uuid)),
    add(delta) {
      const { uuid } = delta;
      observed.set(uuid, merged(observed.get(uuid), delta));
      waiting.set(uuid, merged(waiting.get(uuid), delta));
    },
    record: (delta) => void observed.set(delta.uuid, delta),
    take() {
      const half = halves.pop();
      if (half) return half;
      const batch: ObservationDelta[] = [];
      let bytes = 0;
      for (const [uuid, delta] of waiting) {
        bytes += bytesOf(delta);
        if (batch.length >= batchSize || (bytes > BATCH_BYTES && batch.length > 0)) break;
        batch.push(delta);
        waiting.delete(uuid);
      }
      return batch;
    },
    putBack(batch) {
      for (const delta of batch) {
        if (!observed.has(delta.uuid)) continue;
        const later = waiting.get(delta.uuid);
        waiting.set(delta.uuid, later ? mergeDeltas(delta, later, mergeReport) : delta);
      }
    },
    split(batch) {
      const middle = Math.ceil(batch.length / 2);
      const [delta] = batch;
      if (batch.length > 1) halves.push(batch.slice(middle), batch.slice(0, middle));
      if (batch.length !== 1 || !delta) return undefined;
      const known = observed.get(delta.uuid);
      if (!known) return delta;
      // Without a report the controller requests a full one from the agent, which has everything reported since.
      const contact = contactOf(known);
      observed.set(delta.uuid, contact);
      if (bytesOf(delta) > CONTACT_BYTES) waiting.set(delta.uuid, contact);
      else waiting.delete(delta.uuid);
      return delta;
    },
    requeueAllBut(batch) {
      const sent = new Set(batch);
      for (const [uuid, delta] of observed) if (!sent.has(delta)) waiting.set(uuid, delta);
    },
    forget(uuid) {
      observed.delete(uuid);
      waiting.delete(uuid);
    },
    clear() {
      observed.clear();
      waiting.clear();
      halves = [];
    },
  };
}
