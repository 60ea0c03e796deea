import { randomBytes } from 'node:crypto';
import { FIELD_MANAGERS } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import { createOrUpdate, type KubeClient, type KubeObject, type Store } from '../kube/mod.ts';
import { sleep } from '../lib/clock.ts';
import type { Log } from '../lib/log.ts';
import {
  type EpochLog,
  type EpochPosition,
  formatEpochLog,
  formatPosition,
  isIssued,
  latestPosition,
  parseEpochLog,
  withNewEpoch,
  withNextSequenceNumber,
} from '../rules/epoch.ts';
import { RESOURCES } from '../subjects/kinds.ts';
import type { EssentialStores } from './stores.ts';

export const EPOCH_LOG = 'skerry-epochs';
const KEY = 'epochs';
const CALL_MS = 5_000;
/** Delay of the next sequence number after a change: short enough for the next report of an agent, at most one per second. */
const SOON_MS = 200;
const STEP_MS = 1_000;
const RETRY_MS = 5_000;

/** The epoch log (src/rules/epoch.ts) as this replica knows it; the ConfigMap `skerry-epochs` stores it. */
export interface Epochs {
  readonly epochLog: EpochLog;
  /** Called when there is a new position to issue. */
  subscribe(listener: () => void): Disposable;
  /** Called with two positions when the datastore no longer has the first, which was issued, and continues at the second. */
  onRestored(listener: (lost: string, now: string) => void): Disposable;
  /** whether the stores may show another datastore than the one that `epochLog` is about: `verify` first */
  readonly isUnverified: boolean;
  /** whether some store has not been listed since a restore was noticed, so that it may still have lost objects */
  readonly isStale: boolean;
  /** Called when something else indicates a restore: `verify` is due before the next response. */
  invalidate(): void;
  /** Reads the log from the API server. Rejects when it cannot be reached. */
  verify(): Promise<void>;
  /** Verifies, and begins an epoch after the position when the log still does not have it. */
  beginEpochAfter(position: EpochPosition): Promise<void>;
  /** Begins the epoch of a leader, and counts changes until the signal aborts. */
  lead(client: KubeClient, signal: AbortSignal): Promise<void>;
}

export interface EpochsOptions {
  client: KubeClient;
  namespace: string;
  stores: EssentialStores;
  log: Log;
}

/**
 * A restore is noticed in two ways: a replica lists its stores again and finds that the log no longer has the position that
 * it knew, or an agent presents a position that the log does not have. In both cases an epoch begins, so that lost positions
 * stay recognisable when this datastore has counted as far as the other one had.
 *
 * Longer than a hundred lines: every method reads and moves the one log that this replica knows.
 */
export function createEpochs(options: EpochsOptions): Epochs {
  const { client, namespace, stores, log } = options;
  const ref = { namespace, name: EPOCH_LOG };
  let epochLog: EpochLog = [];
  const listeners = new Set<() => void>();
  const restoreListeners = new Set<(lost: string, now: string) => void>();
  let verified = -1;
  let verifying: Promise<void> | undefined;

  /** number of lists of each store when a restore was noticed */
  let atRestore: readonly number[] = [];
  const isStale = () =>
    Object.values(stores).some(
      (store: Store<KubeObject>, i) => store.lists <= (atRestore[i] ?? Number.NEGATIVE_INFINITY),
    );
  const lists = () => Object.values(stores).reduce((sum: number, store: Store<KubeObject>) => sum + store.lists, 0);

  function advance(next: EpochLog) {
    const before = latestPosition(epochLog);
    const now = latestPosition(next);
    epochLog = next;
    if (before?.id === now?.id && before?.sequenceNumber === now?.sequenceNumber) return;
    for (const listener of listeners) listener();
  }

  /**
   * Changes the stored log. `known` is the latest position before the log is read: a position that this replica or another
   * one issues meanwhile may be missing in what is read, and says nothing about a restore.
   */
  async function update(
    writer: KubeClient,
    change: (stored: EpochLog, known: EpochPosition | undefined) => Change,
  ): Promise<void> {
    const known = latestPosition(epochLog);
    let stored: EpochLog = [];
    let { next, lost }: Change = {};
    await createOrUpdate<ConfigMap>(
      writer,
      RESOURCES.configMaps,
      ref,
      (present) => {
        stored = parseEpochLog(present?.data?.[KEY]);
        ({ next, lost } = change(stored, known));
        if (!next) return undefined;
        const data = { [KEY]: formatEpochLog(next) };
        return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...ref }, ...present, data };
      },
      { call: { fieldManager: FIELD_MANAGERS.controller, timeoutMs: CALL_MS } },
    );
    const now = next ?? stored;
    const latest = latestPosition(epochLog);
    if (lost || !latest || isIssued(now, latest)) advance(now);
    if (lost) announce(lost, now);
  }

  function announce(lost: EpochPosition, next: EpochLog) {
    atRestore = Object.values(stores).map((store: Store<KubeObject>) => store.lists);
    const positions = { lost: formatPosition(lost), now: formatPosition(latestPosition(next) as EpochPosition) };
    log.warn(positions, 'The datastore was restored from a backup, or is another one: nodes retain what it lacks');
    for (const listener of restoreListeners) listener(positions.lost, positions.now);
  }

  async function readLive(): Promise<void> {
    const at = lists();
    await update(client, afterRestore);
    verified = at;
  }

  const verify = () => {
    verifying ??= readLive().finally(() => {
      verifying = undefined;
    });
    return verifying;
  };

  /** Issues the next sequence number soon after each change of what machines are to run. */
  function count(writer: KubeClient, signal: AbortSignal): Disposable {
    let timer: NodeJS.Timeout | undefined;
    let steppedAt = Number.NEGATIVE_INFINITY;
    const step = () => {
      // A change from here on may be stored after this sequence number and gets the next one.
      timer = undefined;
      steppedAt = performance.now();
      const next = (stored: EpochLog, known: EpochPosition | undefined): Change => {
        const restored = afterRestore(stored, known);
        return restored.next ? restored : { next: withNextSequenceNumber(stored) };
      };
      update(writer, next).catch((error: Error) => {
        if (signal.aborted) return;
        log.debug({ reason: error.message }, 'The epoch log could not be written');
        timer ??= setTimeout(step, RETRY_MS);
      });
    };
    const changes = stores.applications.subscribe((change) => {
      const matters =
        change.type === 'delete' || change.previous?.metadata.generation !== change.object.metadata.generation;
      if (!matters || change.initial || signal.aborted) return;
      timer ??= setTimeout(step, Math.max(SOON_MS, steppedAt + STEP_MS - performance.now()));
    });
    return {
      [Symbol.dispose]() {
        clearTimeout(timer);
        changes[Symbol.dispose]();
      },
    };
  }

  // Writes of other replicas. When they do not continue the known log, the log is read from the API server.
  stores.configMaps.subscribe(({ type, object }) => {
    if (object.metadata.name !== EPOCH_LOG || object.metadata.namespace !== namespace) return;
    const seen = type === 'delete' ? [] : parseEpochLog(object.data?.[KEY]);
    const known = latestPosition(epochLog);
    if (!known || isIssued(seen, known)) advance(seen);
    else verified = -1;
  });

  return {
    get epochLog() {
      return epochLog;
    },
    get isUnverified() {
      return verified !== lists() || isStale();
    },
    get isStale() {
      return isStale();
    },
    invalidate() {
      verified = -1;
    },
    verify,
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    onRestored(listener) {
      restoreListeners.add(listener);
      return { [Symbol.dispose]: () => void restoreListeners.delete(listener) };
    },
    async beginEpochAfter(position) {
      await verify();
      if (isIssued(epochLog, position) || position.epoch < (latestPosition(epochLog)?.epoch ?? 0)) return;
      await update(client, (stored, known) => {
        const restored = afterRestore(stored, known);
        const { next: log = stored } = restored;
        if (isIssued(log, position) || position.epoch < (latestPosition(log)?.epoch ?? 0)) return restored;
        return { next: withNewEpoch(log, newId(), position.epoch), lost: position };
      });
    },
    async lead(writer, signal) {
      const begin = () =>
        update(writer, (stored, known) => {
          const { next: log = stored, lost } = afterRestore(stored, known);
          return { next: withNewEpoch(log, newId()), lost };
        });
      while (!signal.aborted) {
        const begun = await begin().then(
          () => true,
          (error: Error) => log.debug({ reason: error.message }, 'The epoch log could not be written'),
        );
        if (begun) break;
        await sleep(RETRY_MS, signal);
      }
      using _counting = count(writer, signal);
      while (!signal.aborted) {
        await sleep(RETRY_MS, signal);
        // A restore is noticed even when no agent presents a position.
        if (!signal.aborted && verified !== lists()) await verify().catch(() => {});
      }
    },
  };
}

/** What becomes of the stored log. */
interface Change {
  /** undefined when there is nothing to change */
  next?: EpochLog | undefined;
  /** the position that was issued and that the stored log lacks */
  lost?: EpochPosition | undefined;
}

/** A new epoch when the stored log lacks a known position: the datastore was replaced or restored. */
function afterRestore(stored: EpochLog, known: EpochPosition | undefined): Change {
  if (!known || isIssued(stored, known)) return {};
  return { next: withNewEpoch(stored, newId(), known.epoch), lost: known };
}

const newId = () => randomBytes(4).toString('hex');
