import { randomBytes } from 'node:crypto';
import type { KubeClient } from './client.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Log, type Metrics, silentLog } from './dependencies.ts';
import { microTime } from './micro-time.ts';
import type { KubeObject, Resource } from './object.ts';
import { createTokenBuckets } from './token-bucket.ts';

export interface EventOptions {
  client: Pick<KubeClient, 'create'>;
  /** The `reportingController` of the events: `skerry.dev/controller`. */
  controller: string;
  /** The `reportingInstance` of the events: the name of the pod. */
  instance: string;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
}

/** One change, described for users. */
export interface EventInput {
  type: 'Normal' | 'Warning';
  /** What happened, as one CamelCase word: the reason of the condition. */
  reason: string;
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
 * `record` returns at once; a failure is counted and never reaches the caller. Disposing waits for pending writes.
 */
export interface EventRecorder extends AsyncDisposable {
  record(regarding: KubeObject, event: EventInput): void;
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
const OVERALL = { burst: 100, perSecond: 10 };
const REMEMBERED = 10_000;
const MAX_PENDING = 100;

export function createEventRecorder(options: EventOptions): EventRecorder {
  const { client, controller, instance, clock = systemClock, metrics = {}, log = silentLog } = options;
  /** the last event, by uid and what it is about */
  const recorded = createMemory<string>(REMEMBERED);
  const perObject = createTokenBuckets({ clock, ...PER_OBJECT, capacity: REMEMBERED });
  const overall = createTokenBuckets({ clock, ...OVERALL });
  const pending = new Set<Promise<void>>();

  /** Takes a token of the object's bucket and one of the common bucket, or none at all. */
  const admit = (uid: string) => perObject.waitMs(uid) === 0 && overall.take('') && perObject.take(uid);

  async function send(regarding: KubeObject, event: EventInput) {
    const { name, namespace, uid, resourceVersion } = regarding.metadata;
    const body = {
      apiVersion: 'events.k8s.io/v1',
      kind: 'Event',
      metadata: {
        name: `${name.slice(0, 200)}.${randomBytes(8).toString('hex')}`,
        namespace: namespace ?? 'default',
      },
      eventTime: microTime(clock.wall()),
      reportingController: controller,
      reportingInstance: instance,
      type: event.type,
      reason: event.reason,
      action: event.action,
      note: event.note.length > 1024 ? `${event.note.slice(0, 1021)}...` : event.note,
      regarding: { apiVersion: regarding.apiVersion, kind: regarding.kind, name, namespace, uid, resourceVersion },
    };
    try {
      await client.create(EVENTS, body, { timeoutMs: 10_000 });
    } catch (error) {
      metrics.eventDropped?.({ reason: 'failed' });
      log.debug({ err: error, reason: event.reason }, 'Event was not recorded');
    }
  }

  return {
    record(regarding, event) {
      const uid = regarding.metadata.uid ?? '';
      const about = `${uid}/${event.about ?? event.reason}`;
      const text = `${event.type}/${event.reason}/${event.note}`;
      if (recorded.get(about) === text) return;
      if (pending.size >= MAX_PENDING) return metrics.eventDropped?.({ reason: 'full' });
      if (!admit(uid)) return metrics.eventDropped?.({ reason: 'rate' });
      recorded.set(about, text);
      const sending: Promise<void> = send(regarding, event).finally(() => pending.delete(sending));
      pending.add(sending);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(pending);
    },
  };
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
