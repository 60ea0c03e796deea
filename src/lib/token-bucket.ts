import type { Clock } from './clock.ts';

/**
 * Token buckets, one for each key: a burst at once, then a steady rate. The number of tokens may be negative, so that one
 * expensive request delays its key as much as many cheap ones.
 */
export interface TokenBuckets {
  /** Takes one token; false when there is none. */
  take(key: string): boolean;
  /** Takes tokens even if there are not enough. */
  charge(key: string, tokens: number): void;
  /** The milliseconds until there is one token more than `reserve`; 0 when there is already. Takes none. */
  waitMs(key: string, reserve?: number): number;
  forget(key: string): void;
}

export interface TokenBucketsOptions {
  clock: Pick<Clock, 'now'>;
  /** tokens added per second, up to `burst` */
  perSecond: number;
  burst: number;
  /** maximum of buckets in memory; beyond it the full ones are dropped, then the oldest */
  capacity?: number;
}

export function createTokenBuckets({ clock, perSecond, burst, capacity = 20_000 }: TokenBucketsOptions): TokenBuckets {
  /** the number of tokens at the time `at`; a key without an entry has a full bucket */
  const buckets = new Map<string, { tokens: number; at: number }>();

  function tokensOf(key: string, now = clock.now()): number {
    const { tokens, at } = buckets.get(key) ?? { tokens: burst, at: now };
    // A clock that was set back neither adds nor takes tokens.
    return Math.min(burst, tokens + (Math.max(0, now - at) / 1000) * perSecond);
  }

  function makeRoom() {
    for (const key of buckets.keys()) if (tokensOf(key) === burst) buckets.delete(key);
    // Only an attack keeps so many buckets in use.
    for (const key of buckets.keys()) {
      if (buckets.size < capacity) return;
      buckets.delete(key);
    }
  }

  function charge(key: string, tokens: number) {
    const now = clock.now();
    const left = tokensOf(key, now) - tokens;
    if (!buckets.has(key) && buckets.size >= capacity) makeRoom();
    buckets.set(key, { tokens: left, at: now });
  }

  const waitMs = (key: string, reserve = 0) => Math.max(0, ((reserve + 1 - tokensOf(key)) / perSecond) * 1000);

  return {
    take(key) {
      if (waitMs(key) > 0) return false;
      charge(key, 1);
      return true;
    },
    charge,
    waitMs,
    forget: (key) => void buckets.delete(key),
  };
}
