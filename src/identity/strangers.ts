import { HttpError, retryAfter } from '../http/http-error.ts';
import type { Clock } from '../lib/clock.ts';
import { createTokenBuckets } from '../lib/token-bucket.ts';
import type { Strangers } from './contract/strangers.ts';

/** Writes to the API server that people without a login cause, of the whole installation. */
const WRITES = { perSecond: 10, burst: 20 } as const;
/** How long an address counts as guessing after a failure. */
const FAILED = { perSecond: 1 / 600, burst: 1 } as const;
/** Interactions of one address that begin within ten minutes. */
const INTERACTIONS = { perSecond: 20 / 600, burst: 20 } as const;

export interface StrangersOptions {
  clock: Pick<Clock, 'now'>;
  /** of this installation, this one included */
  replicas(): number;
}

/** Half of the writes are kept for addresses without a failed attempt in the last ten minutes. */
export function createStrangers({ clock, replicas }: StrangersOptions): Strangers {
  const writes = createTokenBuckets({ clock, ...WRITES });
  const failures = createTokenBuckets({ clock, ...FAILED });
  const interactions = createTokenBuckets({ clock, ...INTERACTIONS });
  const refuse = (waitMs: number) => {
    throw new HttpError(429, 'TOO_MANY_REQUESTS', 'too many people try to log in at this moment, try again later', {
      headers: retryAfter(waitMs / 1000),
    });
  };

  return {
    charge(address) {
      // Each replica has its share of the writes.
      const cost = Math.max(1, replicas());
      const hasFailed = failures.waitMs(address) > 0;
      const waitMs = writes.waitMs('', hasFailed ? WRITES.burst / 2 : 0);
      if (waitMs > 0) refuse(waitMs);
      writes.charge('', cost);
      let isCharged = true;
      return {
        refund() {
          if (isCharged) writes.charge('', -cost);
          isCharged = false;
        },
      };
    },
    interaction(address) {
      const waitMs = interactions.waitMs(address);
      if (waitMs > 0) refuse(waitMs);
      interactions.charge(address, 1);
    },
    failed: (address) => failures.charge(address, 1),
  };
}
