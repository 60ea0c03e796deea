import { randomBytes } from 'node:crypto';
import { FIELD_MANAGERS } from '../api/names.ts';
import type { ConfigMap } from '../api/resources.ts';
import {
  formatHistory,
  formatMark,
  type History,
  hasGivenOut,
  type Mark,
  markOf,
  parseHistory,
  withBeat,
  withTerm,
} from '../domain/history.ts';
import { RESOURCES } from '../kinds/index.ts';
import { createOrUpdate, type KubeClient, type KubeObject, type Log, type Store, sleep } from '../kube/mod.ts';
import type { Stores } from './stores.ts';

const NAME = 'skerry-history';
const KEY = 'terms';
const CALL_MS = 5_000;
/** A beat comes so soon after a change that the agent hears of it with its next report, and at most once a second. */
const SOON_MS = 200;
const BEAT_MS = 1_000;
const RETRY_MS = 5_000;

/** What this replica knows of the store's history (domain/history.ts); the ConfigMap `skerry-history` has it. */
export interface StoreHistory {
  readonly present: History;
  /** Called when there is another mark to give out. */
  subscribe(listener: () => void): Disposable;
  /** whether the views may show another store than the one that `present` is about: `verify` first */
  readonly isDoubtful: boolean;
  /** whether some view has not been listed anew since a restore was noticed: it may still show what was lost */
  readonly isStale: boolean;
  /** Something else tells of a restore: `verify` before anybody is told anything. */
  doubt(): void;
  /** Looks at the API server itself. Rejects when it cannot be reached. */
  verify(): Promise<void>;
  /** Verifies; when the store still does not know the mark, it begins a term after it. */
  dispute(mark: Mark): Promise<void>;
  /** Begins the term of a leader, and counts what changes until the signal aborts. */
  lead(client: KubeClient, signal: AbortSignal): Promise<void>;
}

export interface StoreHistoryOptions {
  client: KubeClient;
  namespace: string;
  stores: Stores;
  log: Log;
  /** The store forgot what it had said before. */
  onRestored?: (lost: string, now: string) => void;
}

/**
 * A restore is noticed by whoever comes first: a replica whose views were listed anew, which looks whether the history
 * still has the mark that it knew; or an agent with a mark that the store does not know. Either way a term begins, so
 * that what was lost stays recognisable when this store has counted as far as the other had.
 */
export function createStoreHistory(options: StoreHistoryOptions): StoreHistory {
  const { client, namespace, stores, log, onRestored } = options;
  const ref = { namespace, name: NAME };
  let present: History = [];
  const listeners = new Set<() => void>();
  let verified = -1;
  let verifying: Promise<void> | undefined;

  /** lists taken of each store when a restore was noticed */
  let atRestore: readonly number[] = [];
  const isStale = () =>
    Object.values(stores).some(
      (store: Store<KubeObject>, i) => store.lists <= (atRestore[i] ?? Number.NEGATIVE_INFINITY),
    );
  const lists = () => Object.values(stores).reduce((sum: number, store: Store<KubeObject>) => sum + store.lists, 0);

  function advance(next: History) {
    const before = markOf(present);
    const now = markOf(next);
    present = next;
    if (before?.id === now?.id && before?.beat === now?.beat) return;
    for (const listener of listeners) listener();
  }

  /** Changes the stored history; `change` answers undefined when there is nothing to change. */
  async function move(writer: KubeClient, change: (stored: History) => History | undefined): Promise<void> {
    let stored: History = [];
    let next: History | undefined;
    await createOrUpdate<ConfigMap>(
      writer,
      RESOURCES.configMaps,
      ref,
      (known) => {
        stored = parseHistory(known?.data?.[KEY]);
        next = change(stored);
        if (!next) return undefined;
        const data = { [KEY]: formatHistory(next) };
        return { apiVersion: 'v1', kind: 'ConfigMap', metadata: { ...ref }, ...known, data };
      },
      { call: { fieldManager: FIELD_MANAGERS.controller, timeoutMs: CALL_MS } },
    );
    advance(next ?? stored);
  }

  /** A new term when the store does not know what we do: it is another one now, or as it was once. */
  function unlessLost(stored: History): History | undefined {
    const known = markOf(present);
    if (!known || hasGivenOut(stored, known)) return undefined;
    const next = withTerm(stored, newId(), known.n);
    tell(known, next);
    return next;
  }

  function tell(lost: Mark, next: History) {
    atRestore = Object.values(stores).map((store: Store<KubeObject>) => store.lists);
    const marks = { lost: formatMark(lost), now: formatMark(markOf(next) as Mark) };
    log.warn(marks, 'The store was restored from a backup, or is another one: nodes keep what it does not know');
    onRestored?.(marks.lost, marks.now);
  }

  async function look(): Promise<void> {
    const at = lists();
    await move(client, unlessLost);
    verified = at;
  }

  const verify = () => {
    verifying ??= look().finally(() => {
      verifying = undefined;
    });
    return verifying;
  };

  /** Counts a beat soon after each change of what machines are to run. */
  function count(writer: KubeClient, signal: AbortSignal): Disposable {
    let timer: NodeJS.Timeout | undefined;
    let beatAt = Number.NEGATIVE_INFINITY;
    const beat = () => {
      // What changes from here on may come after this beat in the store, and gets the next.
      timer = undefined;
      beatAt = performance.now();
      move(writer, (stored) => unlessLost(stored) ?? withBeat(stored)).catch((error: Error) => {
        if (signal.aborted) return;
        log.debug({ reason: error.message }, 'The history of the store could not be written');
        timer ??= setTimeout(beat, RETRY_MS);
      });
    };
    const changes = stores.applications.subscribe((change) => {
      const asks =
        change.type === 'delete' || change.previous?.metadata.generation !== change.object.metadata.generation;
      if (!asks || change.initial || signal.aborted) return;
      timer ??= setTimeout(beat, Math.max(SOON_MS, beatAt + BEAT_MS - performance.now()));
    });
    return {
      [Symbol.dispose]() {
        clearTimeout(timer);
        changes[Symbol.dispose]();
      },
    };
  }

  // What others wrote. Where it is no continuation of what is known, the API server itself is asked.
  stores.configMaps.subscribe(({ type, object }) => {
    if (object.metadata.name !== NAME || object.metadata.namespace !== namespace) return;
    const seen = type === 'delete' ? [] : parseHistory(object.data?.[KEY]);
    const known = markOf(present);
    if (!known || hasGivenOut(seen, known)) advance(seen);
    else verified = -1;
  });

  return {
    get present() {
      return present;
    },
    get isDoubtful() {
      return verified !== lists() || isStale();
    },
    get isStale() {
      return isStale();
    },
    doubt() {
      verified = -1;
    },
    verify,
    subscribe(listener) {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    async dispute(mark) {
      await verify();
      if (hasGivenOut(present, mark) || mark.n < (markOf(present)?.n ?? 0)) return;
      await move(client, (stored) => {
        const lost = unlessLost(stored) ?? stored;
        if (hasGivenOut(lost, mark) || mark.n < (markOf(lost)?.n ?? 0)) return lost === stored ? undefined : lost;
        const next = withTerm(lost, newId(), mark.n);
        tell(mark, next);
        return next;
      });
    },
    async lead(writer, signal) {
      const begin = () => move(writer, (stored) => withTerm(unlessLost(stored) ?? stored, newId()));
      while (!signal.aborted) {
        const begun = await begin().then(
          () => true,
          (error: Error) => log.debug({ reason: error.message }, 'The history of the store could not be written'),
        );
        if (begun) break;
        await sleep(RETRY_MS, signal);
      }
      using _counting = count(writer, signal);
      while (!signal.aborted) {
        await sleep(RETRY_MS, signal);
        // Where no agent asks, a restore is noticed all the same.
        if (!signal.aborted && verified !== lists()) await verify().catch(() => {});
      }
    },
  };
}

const newId = () => randomBytes(4).toString('hex');
