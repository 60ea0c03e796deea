import { unavailable } from '../contract/errors.ts';

export interface ReviewCacheOptions<V> {
  /** how long a review is cached; 0 for not at all */
  lifetimeMs: (value: V) => number;
  /** cached reviews of each class; refusals never evict permissions */
  capacity: number;
  allows: (value: V) => boolean;
  /** concurrent reviews; more are refused with 503 */
  pending?: number;
  /** monotonic milliseconds */
  now?: () => number;
}

/** Caches reviews, and makes one for all callers that need the same review at the same time. */
export interface ReviewCache<V> {
  ask(key: string, load: () => Promise<V>, signal: AbortSignal): Promise<{ value: V; cached: boolean }>;
}

export function createReviewCache<V>(options: ReviewCacheOptions<V>): ReviewCache<V> {
  const { lifetimeMs, capacity, allows, pending = 256, now = () => performance.now() } = options;
  const known = { allowed: new Map<string, Kept<V>>(), denied: new Map<string, Kept<V>>() };
  const underWay = new Map<string, Promise<V>>();

  function recall(key: string): V | undefined {
    const kept = known.allowed.get(key) ?? known.denied.get(key);
    if (!kept) return undefined;
    if (kept.until > now()) return kept.value;
    known.allowed.delete(key);
    known.denied.delete(key);
    return undefined;
  }

  function keep(key: string, value: V): void {
    const lifetime = lifetimeMs(value);
    if (lifetime <= 0) return;
    const [map, other] = allows(value) ? [known.allowed, known.denied] : [known.denied, known.allowed];
    other.delete(key);
    map.delete(key);
    if (map.size >= capacity) for (const oldest of map.keys()) if (map.delete(oldest)) break;
    map.set(key, { value, until: now() + lifetime });
  }

  return {
    async ask(key, load, signal) {
      const value = recall(key);
      if (value !== undefined) return { value, cached: true };
      let question = underWay.get(key);
      if (!question) {
        if (underWay.size >= pending) throw unavailable('too many requests wait for their access check', undefined, 1);
        question = load();
        underWay.set(key, question);
        question.then(
          (answer) => {
            underWay.delete(key);
            keep(key, answer);
          },
          () => underWay.delete(key),
        );
      }
      return { value: await abortable(question, signal), cached: false };
    },
  };
}

interface Kept<V> {
  value: V;
  until: number;
}

/** Settles as the promise, or rejects with the reason of the signal if it aborts first. The promise is not cancelled. */
export function abortable<V>(promise: Promise<V>, signal: AbortSignal): Promise<V> {
  if (signal.aborted) {
    // There is no other handler of the promise, and an unhandled rejection would end the process.
    promise.catch(() => {});
    return Promise.reject(signal.reason);
  }
  return new Promise((resolve, reject) => {
    const abort = () => reject(signal.reason);
    signal.addEventListener('abort', abort, { once: true });
    const settled = () => signal.removeEventListener('abort', abort);
    promise.then(resolve, reject).finally(settled);
  });
}
