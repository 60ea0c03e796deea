import { randomBytes } from 'node:crypto';
import { type Backoff, backoffDelay } from '../lib/backoff.ts';
import { type Clock, sleep, systemClock } from '../lib/clock.ts';
import { type Log, silentLog } from '../lib/log.ts';
import { createTokenBuckets } from '../lib/token-bucket.ts';
import { isAlreadyExists, isTransient } from './api-error.ts';
import type { KubeClient } from './client.ts';
import type { KubeMetrics } from './metrics.ts';
import { microTime } from './micro-time.ts';
import type { KubeObject, Resource } from './object.ts';

export interface EventOptions {
  client: Pick<KubeClient, 'create'>;
  /** The `reportingController` of the events: `skerry.dev/controller`. */
  controller: string;
  /** The `reportingInstance` of the events: the name of the pod. */
  instance: string;
  log?: Log;
  metrics?: KubeMetrics;
  clock?: Clock;
}

/** One change, described for users. `Reason` has the reasons of a program. */
export interface EventInput<Reason extends string = string> {
  type: 'Normal' | 'Warning';
  /** What happened, as one CamelCase word: the reason of the condition. */
  reason: Reason;
  /** What the controller did or tried: `Deploy`, `Reconcile`. */
  action: string;
  note: string;
  /**
   * What changed: the type of a condition; `reason` when absent. An event that equals the last one about the same subject
   * is not recorded.
   */
  about?: string;
}

/**
 * Records Kubernetes Events (events.k8s.io/v1): one per transition, with a rate limit per object and one for all objects.
 * A reason that an object had no event about lately has a limit of its own, so that a change that goes on for ever does not
 * hide another one. What a limit withholds is recorded later, the latest change of each subject, and says how many changes
 * before it have no event. `record` returns at once; a write that an API server which is away or busy did not accept is repeated
 * for some minutes, and a failure is counted and never reaches the caller. Disposing waits for pending writes, and repeats none.
 */
export interface EventRecorder<Reason extends string> extends AsyncDisposable {
  record(regarding: KubeObject, event: EventInput<Reason>): void;
}

const EVENTS: Resource = {
  group: 'events.k8s.io',
  version: 'v1',
  plural: 'events',
  kind: 'Event',
  namespaced: true,
};

/** Per object as in client-go: a burst, then one in five minutes. For all objects: a small load for an API server. */
const PER_OBJECT = { burst: 25, perSecond: 1 / 300 };
/** Beyond that, one event in five minutes for each reason of an object, and one a minute for an object. */
const PER_REASON = { burst: 1, perSecond: 1 / 300 };
const NEW_REASONS = { burst: 10, perSecond: 1 / 60 };
const OVERALL = { burst: 100, perSecond: 10 };
const REMEMBERED = 10_000;
const MAX_PENDING = 100;
/** Subjects whose latest event waits for a limit, in all and of one object; an event has up to 2 KiB. */
const MAX_WITHHELD = 2_000;
const MAX_WITHHELD_OF_OBJECT = 8;
/** Between two looks at which of them may be recorded, ms. */
const RETRY_MS = 1_000;
/** A write is attempted eight times, for two minutes at most between the first and the last. */
const ATTEMPTS = 8;
const BACKOFF: Backoff = { baseMs: 1_000, factor: 2, maxMs: 30_000, jitter: 0.5 };
/** Bytes of a note that the API server accepts. */
const NOTE_BYTES = 1_024;

interface Withheld {
  uid: string;
  event: EventInput;
  /** makes the object that is created, with this note */
  body(note: string): KubeObject;
  /** changes before it that have no event */
  leftOut: number;
}

export function createEventRecorder<Reason extends string>(options: EventOptions): EventRecorder<Reason> {
  const { client, controller, instance, clock = systemClock, metrics = {}, log = silentLog } = options;
  /** the last event, by uid and what it is about */
  const recorded = createMemory<string>(REMEMBERED);
  const perObject = createTokenBuckets({ clock, ...PER_OBJECT, capacity: REMEMBERED });
  const perReason = createTokenBuckets({ clock, ...PER_REASON, capacity: REMEMBERED });
  const newReasons = createTokenBuckets({ clock, ...NEW_REASONS, capacity: REMEMBERED });
  const overall = createTokenBuckets({ clock, ...OVERALL });
  const pending = new Set<Promise<void>>();
  /** by uid and what it is about, those that wait longest first */
  const withheld = new Map<string, Withheld>();
  /** how many of them are about an object, by uid */
  const withheldOf = new Map<string, number>();
  let cancelRetry: (() => void) | undefined;
  const ending = new AbortController();

  /** Takes a token of the common bucket and those of the object, or none at all. */
  function admit(uid: string, reason: string): boolean {
    if (pending.size >= MAX_PENDING || overall.waitMs('') > 0) return false;
    if (perObject.waitMs(uid) === 0) perObject.take(uid);
    else if (perReason.waitMs(reason) > 0 || newReasons.waitMs(uid) > 0) return false;
    else newReasons.take(uid);
    perReason.take(reason);
    return overall.take('');
  }

  async function send({ event: { reason }, body, leftOut }: Withheld, note: string) {
    const more = leftOut === 0 ? '' : ` (events left out before it: ${leftOut})`;
    // Its name stays, so that an attempt whose response was lost is not stored twice.
    const object = body(shortened(note, NOTE_BYTES - more.length) + more);
    for (let attempt = 1; ; attempt++) {
      try {
        await client.create(EVENTS, object, { timeoutMs: 10_000 });
        return;
      } catch (error) {
        if (attempt > 1 && isAlreadyExists(error)) return;
        if (!isTransient(error) || attempt === ATTEMPTS || ending.signal.aborted) {
          metrics.eventDropped?.({ reason: 'failed' });
          log.debug({ err: error, reason }, 'Event was not recorded');
          return;
        }
      }
      await sleep(backoffDelay(BACKOFF, attempt, Math.random), ending.signal, clock);
    }
  }

  /** Records the event, or answers false. */
  function tryRecord(about: string, one: Withheld): boolean {
    if (!admit(one.uid, `${one.uid}/${one.event.reason}`)) return false;
    release(about);
    recorded.set(about, textOf(one.event));
    const sending: Promise<void> = send(one, one.event.note).finally(() => pending.delete(sending));
    pending.add(sending);
    return true;
  }

  function release(about: string) {
    const uid = withheld.get(about)?.uid;
    if (uid === undefined) return;
    withheld.delete(about);
    const left = (withheldOf.get(uid) ?? 1) - 1;
    if (left > 0) withheldOf.set(uid, left);
    else withheldOf.delete(uid);
  }

  function retry() {
    for (const [about, one] of withheld) tryRecord(about, one);
    cancelRetry = withheld.size === 0 ? undefined : clock.after(RETRY_MS, retry);
  }

  function withhold(about: string, one: Withheld) {
    const ofObject = withheldOf.get(one.uid) ?? 0;
    if (one.leftOut > 0) metrics.eventDropped?.({ reason: 'rate' });
    else if (ofObject >= MAX_WITHHELD_OF_OBJECT) return metrics.eventDropped?.({ reason: 'rate' });
    else if (withheld.size >= MAX_WITHHELD) return metrics.eventDropped?.({ reason: 'full' });
    else withheldOf.set(one.uid, ofObject + 1);
    withheld.set(about, one);
    cancelRetry ??= clock.after(RETRY_MS, retry);
  }

  return {
    record(regarding, event) {
      const uid = regarding.metadata.uid ?? '';
      const about = `${uid}/${event.about ?? event.reason}`;
      const before = withheld.get(about);
      if (textOf(event) === (before ? textOf(before.event) : recorded.get(about))) return;
      const body = bodyOf(regarding, event, { controller, instance, at: clock.wall() });
      const one = { uid, event, body, leftOut: before ? before.leftOut + 1 : 0 };
      if (!tryRecord(about, one)) withhold(about, one);
    },
    async [Symbol.asyncDispose]() {
      ending.abort();
      cancelRetry?.();
      withheld.clear();
      await Promise.all(pending);
    },
  };
}

/** A text with at most `most` bytes of UTF-8, without a half of a character. */
function shortened(text: string, most: number): string {
  if (Buffer.byteLength(text) <= most) return text;
  const { read } = new TextEncoder().encodeInto(text, new Uint8Array(most - 3));
  return `${text.slice(0, read)}...`;
}

const textOf = ({ type, reason, note }: EventInput) => `${type}/${reason}/${note}`;

/** The object of an event but for its note. It keeps nothing else of the object that it is about. */
function bodyOf(
  { apiVersion, kind, metadata: { name, namespace, uid, resourceVersion } }: KubeObject,
  { type, reason, action }: EventInput,
  { controller, instance, at }: { controller: string; instance: string; at: number },
): Withheld['body'] {
  const regarding = { apiVersion, kind, name, namespace, uid, resourceVersion };
  return (note) => ({
    apiVersion: 'events.k8s.io/v1',
    kind: 'Event',
    metadata: {
      name: `${name.slice(0, 200)}.${randomBytes(8).toString('hex')}`,
      namespace: namespace ?? 'default',
    },
    ...{ eventTime: microTime(at), reportingController: controller, reportingInstance: instance },
    ...{ type, reason, action, note, regarding },
  });
}

/** A map with a size limit: above it, the entry that was set longest ago is dropped. */
function createMemory<V>(limit: number) {
  const map = new Map<string, V>();
  return {
    get: (key: string) => map.get(key),
    set(key: string, value: V) {
      map.delete(key);
      map.set(key, value);
      if (map.size > limit) for (const oldest of map.keys()) return void map.delete(oldest);
    },
  };
}
