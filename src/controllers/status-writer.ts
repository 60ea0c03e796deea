import { FIELD_MANAGERS } from '../api/names.ts';
import type { Kind } from '../kinds/definition.ts';
import type { KindObject } from '../kinds/object.ts';
import { type Change, equal, isStatusRefused, keyOf, writeStatus } from '../kube/mod.ts';
import { statusRefused } from '../rules/conditions.ts';
import type { ControllerDependencies } from './dependencies.ts';
import { recordTransitions } from './transition-events.ts';

export interface StatusWriteOptions {
  /** Records one event per transition of a condition; true unless set. */
  withEvents?: boolean;
  /** Called with the milliseconds that the write took. */
  onDuration?: (ms: number) => void;
}

/** Writes the statuses of one kind, and recognises its own writes when the store shows them. */
export interface StatusWriter<T extends KindObject> {
  /**
   * Writes what differs and records the transitions. When the API server refuses the status, a condition about the refusal
   * replaces the former ones: an old Ready would outlive its reason.
   */
  write(
    object: T,
    status: NonNullable<T['status']>,
    signal: AbortSignal,
    options?: StatusWriteOptions,
  ): Promise<{ refused: boolean }>;
  /** Whether another client changed the status: kubectl, or a former leader with its last write. */
  isForeign(change: Change<T>): boolean;
}

/** A refused status is written again after this time: the CRD may have been updated in between. */
export const REFUSED_RETRY_MS = 60_000;

export function createStatusWriter<T extends KindObject>(
  {
    client,
    events,
    log,
    metrics,
    clock,
  }: Pick<ControllerDependencies, 'client' | 'events' | 'log' | 'metrics' | 'clock'>,
  { resource, definition }: Kind<T>,
): StatusWriter<T> {
  const { kind } = definition;
  /** statuses that are being written: a watch may show them before the response arrives */
  const pending = new Map<string, unknown>();
  /** resource versions of our last writes */
  const written = new Map<string, string | undefined>();

  async function put(
    object: T,
    status: NonNullable<T['status']>,
    signal: AbortSignal,
    { withEvents = true, onDuration }: StatusWriteOptions = {},
  ): Promise<void> {
    const key = keyOf(object);
    pending.set(key, status);
    const began = performance.now();
    try {
      const result = await writeStatus(client, resource, object, status, {
        signal,
        fieldManager: FIELD_MANAGERS.controller,
      });
      if (!result.written) return;
      written.set(key, result.object.metadata.resourceVersion);
      if (withEvents) recordTransitions(events, object, object.status, status);
    } finally {
      onDuration?.(performance.now() - began);
      pending.delete(key);
    }
  }

  return {
    async write(object, status, signal, options) {
      try {
        await put(object, status, signal, options);
        return { refused: false };
      } catch (error) {
        if (!isStatusRefused(error)) throw error;
        metrics.statusRefused?.({ kind });
        log.warn({ err: error, key: keyOf(object), kind }, 'Status refused');
        const now = new Date(clock()).toISOString();
        const refusal = statusRefused(definition, object, error.message, now);
        await put(object, { ...object.status, ...refusal } as NonNullable<T['status']>, signal);
        return { refused: true };
      }
    },
    isForeign({ type, key, object, previous, initial }) {
      if (type === 'delete') written.delete(key);
      if (type === 'delete' || initial || !previous) return false;
      if (written.get(key) === object.metadata.resourceVersion) return false;
      return !equal(previous.status, object.status) && !equal(pending.get(key), object.status);
    },
  };
}
