import type { Clock } from './clock.ts';

/** Keeps one caller from using up what all need: a leaky bucket per key. */
export interface RequestRates {
  /** False when this caller has asked too often. */
  admit(key: string): boolean;
  /** What was admitted turned out to be dearer than others: it may bring the caller into debt. */
  charge(key: string, amount: number): void;
  /** Whether the next would be refused; counts nothing. */
  exhausted(key: string): boolean;
  /** Seconds until the next would be admitted. */
  retryAfter(key: string): number;
}

export interface RequestRatesOptions {
  clock: Clock;
  perSecond: number;
  burst: number;
  /** callers remembered; beyond it those that have calmed down are forgotten */
  capacity?: number;
}

export function createRequestRates({ clock, perSecond, burst, capacity = 20_000 }: RequestRatesOptions): RequestRates {
  const buckets = new Map<string, { level: number; at: number }>();
  const levelAt = ({ level, at }: { level: number; at: number }, now: number) =>
    Math.max(0, level - ((now - at) / 1000) * perSecond);

  function forgetCalm(now: number) {
    for (const [key, bucket] of buckets) if (levelAt(bucket, now) === 0) buckets.delete(key);
    // Only an attack keeps so many busy; the oldest go.
    for (const key of buckets.keys()) {
      if (buckets.size < capacity) return;
      buckets.delete(key);
    }
  }

  return {
    retryAfter(key) {
      const bucket = buckets.get(key);
      return bucket ? Math.max(0, (levelAt(bucket, clock.now()) + 1 - burst) / perSecond) : 0;
    },
    exhausted(key) {
      const bucket = buckets.get(key);
      return bucket !== undefined && levelAt(bucket, clock.now()) + 1 > burst;
    },
    charge(key, amount) {
      const bucket = buckets.get(key);
      if (bucket) bucket.level += amount;
    },
    admit(key) {
      const now = clock.now();
      const bucket = buckets.get(key);
      if (!bucket) {
        if (buckets.size >= capacity) forgetCalm(now);
        buckets.set(key, { level: 1, at: now });
        return true;
      }
      const level = levelAt(bucket, now);
      bucket.at = now;
      bucket.level = level;
      if (level + 1 > burst) return false;
      bucket.level = level + 1;
      return true;
    },
  };
}
