import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { isAlreadyExists, isConflict, isNotFound } from './api-error.ts';
import type { CallOptions } from './call.ts';
import type { KubeClient, WriteOptions } from './client.ts';
import type { KubeObject, ObjectRef, Resource } from './object.ts';

export interface RetryOptions {
  /** Ends the wait between two attempts; the last conflict is thrown then. */
  signal?: AbortSignal;
  /** After this time no further attempt is made; default ten seconds. */
  deadlineMs?: number;
  clock?: Clock;
  random?: () => number;
}

/** Each conflict means that the write of another client succeeded, so that short delays are enough. */
const CONFLICT_BACKOFF: Backoff = { baseMs: 10, factor: 2, maxMs: 200, jitter: 1 };
const DEADLINE_MS = 10_000;

/**
 * Runs `attempt`, which reads, changes and writes, until its write meets no conflict, so that neither its change nor that
 * of another client is lost. Throws the last conflict when the deadline has passed, and any other error at once.
 */
export const retryOnConflict = <T>(attempt: () => Promise<T>, options?: RetryOptions): Promise<T> =>
  retry(attempt, isLostRace, options);

const isLostRace = (error: unknown) => isConflict(error) || isAlreadyExists(error);

async function retry<T>(
  attempt: () => Promise<T>,
  isLost: (error: unknown) => boolean,
  { signal = NEVER, deadlineMs = DEADLINE_MS, clock = systemClock, random = Math.random }: RetryOptions = {},
): Promise<T> {
  const until = clock.now() + deadlineMs;
  for (let lost = 1; ; lost++) {
    try {
      return await attempt();
    } catch (error) {
      const delay = backoffDelay(CONFLICT_BACKOFF, lost, random);
      if (!isLost(error) || signal.aborted || clock.now() + delay > until) throw error;
      await sleep(delay, signal, clock);
      if (signal.aborted) throw error;
    }
  }
}

const NEVER = new AbortController().signal;

export interface CreateOrUpdateOptions<T> extends RetryOptions {
  /** the object as a store has it, for the first attempt; later attempts read it from the API server */
  known?: T | undefined;
  /** for each call; the deadline covers all of them */
  call?: CallOptions & Pick<WriteOptions, 'fieldManager'>;
}

/**
 * Creates or replaces one object under optimistic locking, and retries when another client was faster. `change` gets the
 * present object, or undefined when there is none, and returns the object to write, with the metadata of the present one.
 * When it returns undefined, or the same object, nothing is written. It may run several times.
 */
export async function createOrUpdate<T extends KubeObject>(
  client: Pick<KubeClient, 'find' | 'create' | 'replace'>,
  resource: Resource<T>,
  ref: ObjectRef,
  change: (present: T | undefined) => T | undefined | Promise<T | undefined>,
  { known, call, ...options }: CreateOrUpdateOptions<T> = {},
): Promise<{ object: T | undefined; written: boolean }> {
  const callOptions = { ...(options.signal && { signal: options.signal }), ...call };
  let fromStore = known;
  let replaces = false;
  async function attempt() {
    const present = fromStore ?? (await client.find(resource, ref, callOptions));
    fromStore = undefined;
    replaces = false;
    const wanted = await change(present);
    if (wanted === undefined || wanted === present) return { object: present, written: false };
    replaces = present !== undefined;
    const object = replaces
      ? await client.replace(resource, wanted, callOptions)
      : await client.create(resource, wanted, callOptions);
    return { object, written: true };
  }
  // An object that was deleted since it was read is created by the next attempt.
  return retry(attempt, (error) => isLostRace(error) || (replaces && isNotFound(error)), options);
}
