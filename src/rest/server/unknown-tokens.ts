import type { Clock } from '../../lib/clock.ts';
import { createTokenBuckets } from '../../lib/token-bucket.ts';
import { tooOften } from '../contract/errors.ts';

/** How often tokens that are not known may be reviewed: steady rate and burst (docs/architecture.md#limits-by-address). */
const RATES = {
  /** tokens that a review refused, per address */
  wrong: { perSecond: 1, burst: 60 },
  /** reviews of a proven subject's tokens from an address that is over its limit, per address and subject */
  subject: { perSecond: 1 / 6, burst: 10 },
  /** the same of all addresses and subjects together */
  beyond: { perSecond: 20, burst: 40 },
  /** reviews of `beyond` that count as the first of a subject, at whatever address */
  first: { perSecond: 1 / 60, burst: 1 },
} as const;
/** Reviews of `beyond` that are kept for first ones, so that nobody who copies a subject takes the turns of all others. */
const KEPT_FOR_FIRST = RATES.beyond.burst / 2;

/** Limits reviews of tokens that are not known. */
export interface UnknownTokens {
  /**
   * Called before a review. `subject`: as the token names it, of subjects that were proven lately. Throws 429 when the address
   * is over its limit of wrong tokens, unless there is a review left for the subject.
   */
  check(address: string, subject?: string): void;
  /** Called when the review has refused the token. */
  wrong(address: string): void;
}

export function createUnknownTokens(clock: Pick<Clock, 'now'>): UnknownTokens {
  const wrong = createTokenBuckets({ clock, ...RATES.wrong });
  const subjects = createTokenBuckets({ clock, ...RATES.subject });
  const beyond = createTokenBuckets({ clock, ...RATES.beyond });
  const first = createTokenBuckets({ clock, ...RATES.first });
  const refuse = (waitMs: number) => {
    if (waitMs > 0) throw tooOften('too many wrong tokens from this address, try again later', waitMs / 1000);
  };

  return {
    check(address, subject) {
      const waitMs = wrong.waitMs(address);
      if (waitMs === 0) return;
      if (subject === undefined) return refuse(waitMs);
      const key = JSON.stringify([address, subject]);
      refuse(subjects.waitMs(key));
      const isFirst = first.waitMs(subject) === 0;
      refuse(beyond.waitMs('', isFirst ? 0 : KEPT_FOR_FIRST));
      subjects.charge(key, 1);
      beyond.charge('', 1);
      first.take(subject);
    },
    wrong: (address) => void wrong.take(address),
  };
}
