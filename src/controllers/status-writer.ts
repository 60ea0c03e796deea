import type { CONDITIONS_OF } from '../api/conditions.ts';
import type { Condition } from '../api/meta.ts';
import { FIELD_MANAGERS } from '../api/names.ts';
import { statusRefused } from '../domain/index.ts';
import {
  type Change,
  equal,
  isStatusRefused,
  type KubeObject,
  keyOf,
  type Resource,
  writeStatus,
} from '../kube/mod.ts';
import type { Leader } from './dependencies.ts';
import { recordTransitions } from './transition-events.ts';

/** What has a status of ours. */
interface Owned extends KubeObject {
  status?: { observedGeneration: number; conditions?: Condition[] };
}

/** How one status is written. */
export interface Writing {
  /** transitions are no events */
  isQuiet?: boolean;
  /** Hears how many ms the API server took. */
  took?: (ms: number) => void;
}

/** Writes the statuses of one kind, and knows its own writes when the store shows them. */
export interface Statuses<T extends Owned> {
  /**
   * Writes what differs, and records the transitions. A status that the API server refuses is counted, and the object
   * then says so instead of what it said before: an old Ready would outlive what it was about.
   */
  write(
    object: T,
    status: NonNullable<T['status']>,
    signal: AbortSignal,
    writing?: Writing,
  ): Promise<{ refused: boolean }>;
  /** Whether a change is of the status and by other hands: an edit with kubectl, or the last write of a former leader. */
  isForeign(change: Change<T>): boolean;
}

/** A refused status is tried again after this time: a definition may have been updated meanwhile. */
export const REFUSED_AGAIN_MS = 60_000;

export function createStatuses<T extends Owned>(
  { client, events, log, metrics, clock }: Pick<Leader, 'client' | 'events' | 'log' | 'metrics' | 'clock'>,
  resource: Resource<T>,
): Statuses<T> {
  const kind = resource.kind as keyof typeof CONDITIONS_OF;
  /** statuses on their way: a watch may show them before the answer arrives */
  const underWay = new Map<string, unknown>();
  /** resource versions of our last writes */
  const written = new Map<string, string | undefined>();

  async function put(
    object: T,
    status: NonNullable<T['status']>,
    signal: AbortSignal,
    { isQuiet = false, took }: Writing = {},
  ): Promise<void> {
    const key = keyOf(object);
    underWay.set(key, status);
    const began = performance.now();
    try {
      const result = await writeStatus(client, resource, object, status, {
        signal,
        fieldManager: FIELD_MANAGERS.controller,
      });
      if (!result.written) return;
      written.set(key, result.object.metadata.resourceVersion);
      if (!isQuiet) recordTransitions(events, object, object.status, status);
    } finally {
      took?.(performance.now() - began);
      underWay.delete(key);
    }
  }

  return {
    async write(object, status, signal, writing) {
      try {
        await put(object, status, signal, writing);
        return { refused: false };
      } catch (error) {
        if (!isStatusRefused(error)) throw error;
        metrics.statusRefused?.({ kind });
        log.warn({ err: error, key: keyOf(object), kind }, 'Status refused');
        const now = new Date(clock()).toISOString();
        const said = statusRefused(kind, object, error.message, now);
        await put(object, { ...object.status, ...said } as NonNullable<T['status']>, signal);
        return { refused: true };
      }
    },
    isForeign({ type, key, object, previous, initial }) {
      if (type === 'delete') written.delete(key);
      if (type === 'delete' || initial || !previous) return false;
      if (written.get(key) === object.metadata.resourceVersion) return false;
      return !equal(previous.status, object.status) && !equal(underWay.get(key), object.status);
    },
  };
}
