import { createTokenBuckets, type TokenBucketsOptions } from '../lib/token-bucket.ts';

/** How often each key may do something. Methods that refuse throw. */
export interface RateLimit {
  /** Takes one token. Throws when there is none. */
  take(key: string): void;
  /** Throws when there is no token. Takes nothing. */
  check(key: string): void;
  /** Takes one token if there is one: for limits of failures, which are known only afterwards. */
  count(key: string): void;
  /** Takes tokens even if there are none: the key then waits the longer. */
  charge(key: string, tokens: number): void;
}

export interface RateLimitOptions extends TokenBucketsOptions {
  /** the error for a key without tokens, which has one again after so many seconds */
  refuse: (waitSeconds: number) => Error;
}

export function createRateLimit({ refuse, ...options }: RateLimitOptions): RateLimit {
  const buckets = createTokenBuckets(options);
  return {
    take(key) {
      if (!buckets.take(key)) throw refuse(buckets.waitMs(key) / 1000);
    },
    check(key) {
      const waitMs = buckets.waitMs(key);
      if (waitMs > 0) throw refuse(waitMs / 1000);
    },
    count: (key) => void buckets.take(key),
    charge: buckets.charge,
  };
}
