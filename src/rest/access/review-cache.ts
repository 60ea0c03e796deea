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
  /** Forgets every review, also those under way: what they were made from has changed. Their callers get the answer to another one. */
  flush(): void;
}

/** How long after a flush reviews may still be of before: the API server, too, takes a moment to notice a change. */
const YOUNG_MS = 1_000;
/** How long a review is cached in this time. */
const YOUNG_LIFETIME_MS = 100;
/** Reviews that one question leads to at most, while flush follows flush. */
const ATTEMPTS = 3;

export function createReviewCache<V>(options: ReviewCacheOptions<V>): ReviewCache<V> {
  const { lifetimeMs, capacity, allows, pending = 256, now = () => performance.now() } = options;
  const known = { allowed: new Map<string, Kept<V>>(), denied: new Map<string, Kept<V>>() };
  /** each with the generation in which it began */
  const underWay = new Map<string, { question: Promise<V>; of: number }>();
  let generation = 0;
  let youngUntil = Number.NEGATIVE_INFINITY;

  function recall(key: string): V | undefined {
    const kept = known.allowed.get(key) ?? known.denied.get(key);
    if (!kept) return undefined;
    if (kept.until > now()) return kept.value;
    known.allowed.delete(key);
    known.denied.delete(key);
    return undefined;
  }

  function keep(key: string, value: V): void {
    const lifetime = now() < youngUntil ? Math.min(lifetimeMs(value), YOUNG_LIFETIME_MS) : lifetimeMs(value);
    if (lifetime <= 0) return;
    const [map, other] = allows(value) ? [known.allowed, known.denied] : [known.denied, known.allowed];
    other.delete(key);
    map.delete(key);
    if (map.size >= capacity) for (const oldest of map.keys()) if (map.delete(oldest)) break;
    map.set(key, { value, until: now() + lifetime });
  }

  /** A review that began in this generation. */
  function begin(key: string, load: () => Promise<V>): Promise<V> {
    const known = underWay.get(key);
    if (known?.of === generation) return known.question;
    if (underWay.size >= pending) throw unavailable('too many requests wait for their access check', undefined, 1);
    const begun = { question: load(), of: generation };
    underWay.set(key, begun);
    const over = () => {
      if (underWay.get(key) === begun) underWay.delete(key);
    };
    begun.question.then((answer) => {
      over();
      if (begun.of === generation) keep(key, answer);
    }, over);
    return begun.question;
  }

  return {
    async ask(key, load, signal) {
      for (let attempt = 1; ; attempt++) {
        const value = recall(key);
        if (value !== undefined) return { value, cached: true };
        const before = generation;
        const answer = await abortable(begin(key, load), signal);
        // The last one began after the question was asked, and after changes that came later: it is as new as an answer can be
        // while somebody changes roles all the time, who may not end the access of all others.
        if (before === generation || attempt === ATTEMPTS) return { value: answer, cached: false };
      }
    },
    flush() {
      generation += 1;
      youngUntil = now() + YOUNG_MS;
      known.allowed.clear();
      known.denied.clear();
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
