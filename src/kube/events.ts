import { randomBytes } from 'node:crypto';
import type { KubeClient } from './client.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Log, type Metrics, silentLog } from './dependencies.ts';
import { microTime } from './micro-time.ts';
import type { KubeObject, Resource } from './object.ts';
import { createTokenBuckets } from './token-bucket.ts';

export interface EventOptions {
  client: Pick<KubeClient, 'create'>;
  /** `skerry.dev/controller`: who reports. */
  controller: string;
  /** Which process: the pod's name. */
  instance: string;
  log?: Log;
  metrics?: Metrics;
  clock?: Clock;
}

/** One sentence about a change, for people. */
export interface EventInput {
  type: 'Normal' | 'Warning';
  /** What happened, in one CamelCase word: equals the condition's reason. */
  reason: string;
  /** What we did or tried: `Deploy`, `Reconcile`. */
  action: string;
  note: string;
  /** What this is a transition of (a condition's type). An event that repeats the last one about it is not recorded. Default: reason. */
  about?: string;
}

/**
 * Records Kubernetes Events (events.k8s.io/v1): one per transition, rate limited per object and overall.
 * Returns at once; a failure is counted and never reaches the caller. Disposing waits for events that are being written.
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

/** Per object as in client-go: a burst, then one in five minutes. Overall: a load that an API server hardly notices. */
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

  /** Takes a token of the object and one of all, or none. */
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

/** A map that forgets what was set longest ago. */
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
