import { randomBytes } from 'node:crypto';
import type { KubeClient } from './client.ts';
import { type Clock, systemClock } from './clock.ts';
import { type Log, type Metrics, silentLog } from './dependencies.ts';
import { microTime } from './micro-time.ts';
import type { KubeObject, Resource } from './object.ts';

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
  /** What this is a transition of (a condition's type). Repeating the last event about it is silence. Default: reason. */
  about?: string;
}

/**
 * Records Kubernetes Events (events.k8s.io/v1): one per transition, rate limited per object and overall.
 * Returns at once; a failure is counted and never reaches the caller. Disposing waits for what is on its way.
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

/** Per object as in client-go: a burst, then one in five minutes. Overall: what an API server does not notice. */
const PER_OBJECT: Rate = { burst: 25, perSecond: 1 / 300 };
const OVERALL: Rate = { burst: 100, perSecond: 10 };
const REMEMBERED = 10_000;
const UNDER_WAY = 100;

export function createEventRecorder(options: EventOptions): EventRecorder {
  const { client, controller, instance, clock = systemClock, metrics = {}, log = silentLog } = options;
  /** uid/about -> the last thing said about it. */
  const said = createMemory<string>(REMEMBERED);
  const buckets = createMemory<Bucket>(REMEMBERED);
  let overall = fullBucket(OVERALL, clock.now());
  const underWay = new Set<Promise<void>>();

  function admit(uid: string): boolean {
    const now = clock.now();
    const own = take(buckets.get(uid) ?? fullBucket(PER_OBJECT, now), PER_OBJECT, now);
    const all = take(overall, OVERALL, now);
    if (!own || !all) return false;
    buckets.set(uid, own);
    overall = all;
    return true;
  }

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
      if (said.get(about) === text) return;
      if (underWay.size >= UNDER_WAY) return metrics.eventDropped?.({ reason: 'full' });
      if (!admit(uid)) return metrics.eventDropped?.({ reason: 'rate' });
      said.set(about, text);
      const sending: Promise<void> = send(regarding, event).finally(() => underWay.delete(sending));
      underWay.add(sending);
    },
    async [Symbol.asyncDispose]() {
      await Promise.all(underWay);
    },
  };
}

interface Rate {
  burst: number;
  perSecond: number;
}

interface Bucket {
  tokens: number;
  at: number;
}

const fullBucket = (rate: Rate, now: number): Bucket => ({ tokens: rate.burst, at: now });

/** The bucket after taking one token, or undefined when it is empty. */
function take(bucket: Bucket, rate: Rate, now: number): Bucket | undefined {
  const tokens = Math.min(rate.burst, bucket.tokens + ((now - bucket.at) / 1000) * rate.perSecond);
  return tokens < 1 ? undefined : { tokens: tokens - 1, at: now };
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
