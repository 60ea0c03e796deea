import { createRateLimit } from '../../http/rate-limit.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { Guesses } from '../contract/access.ts';
import { tooOften } from '../contract/errors.ts';
import { createUnknownTokens } from './unknown-tokens.ts';

/** Rate limits: steady rate and burst. */
const RATES = {
  /** routes that allow guesses of passwords or codes, per address (docs/spec/rest-v3.md#rate-limits) */
  credentials: { perSecond: 1, burst: 60 },
  /** uploads, per caller: parsing a large one takes a quarter of a second */
  uploads: { perSecond: 10, burst: 120 },
  /** bytes of bodies, per caller: parsing a megabyte of JSON takes a twentieth of a second */
  bytes: { perSecond: 4 * 2 ** 20, burst: 32 * 2 ** 20 },
} as const;

/** Limits the share of the process that one caller may use. Each method throws 429 with Retry-After. */
export interface Rates {
  credentials(address: string): void;
  upload(caller: string): void;
  /** Called before a body is read; the returned function charges the received bytes to the caller. */
  body(caller: string): (bytes: number) => void;
  /** The limits of tokens that are not known, from this address. */
  guesses(address: string): Guesses;
}

export function createRates(clock: Clock = systemClock): Rates {
  const limit = (name: keyof typeof RATES, what: string) =>
    createRateLimit({
      clock,
      ...RATES[name],
      refuse: (seconds) => tooOften(`too many ${what}, try again later`, seconds),
    });
  const credentials = limit('credentials', 'attempts from this address');
  const unknownTokens = createUnknownTokens(clock);
  const uploads = limit('uploads', 'files of this caller');
  const bytes = limit('bytes', 'bytes of this caller');
  return {
    credentials: credentials.take,
    upload: uploads.take,
    body(caller) {
      bytes.take(caller);
      return (more) => bytes.charge(caller, more);
    },
    guesses: (address) => ({
      unknown: (subject) => unknownTokens.check(address, subject),
      wrong: () => unknownTokens.wrong(address),
    }),
  };
}
