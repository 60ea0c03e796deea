import { createRateLimit } from '../../http/rate-limit.ts';
import { type Clock, systemClock } from '../../lib/clock.ts';
import type { Guesses } from '../contract/access.ts';
import { tooOften } from '../contract/errors.ts';
import { createUnknownTokens } from './unknown-tokens.ts';

/** Rate limits: steady rate and burst. */
const RATES = {
  /** uploads, per caller: parsing a large one takes a quarter of a second */
  uploads: { perSecond: 10, burst: 120 },
  /** bytes of bodies, per caller: parsing a megabyte of JSON takes a twentieth of a second */
  bytes: { perSecond: 4 * 2 ** 20, burst: 32 * 2 ** 20 },
} as const;

/** Limits the share of the process that one caller may use. Each method throws 429 with Retry-After. */
export interface Rates {
  credentials: TakeAttempt;
  upload(caller: string): void;
  /** Called before a body is read; the returned function charges the received bytes to the caller. */
  body(caller: string): (bytes: number) => void;
  /** The limits of tokens that are not known, from this address. */
  guesses(address: string): Guesses;
}

/** How many attempts at credentials an address has: so many at once, and in each window. */
export interface AttemptLimit {
  requests: number;
  windowMs: number;
}

/** Takes an attempt at a password, code or other credential from an address (docs/spec/rest-v3.md#rate-limits). Throws 429. */
export type TakeAttempt = (address: string) => void;

const ATTEMPTS: AttemptLimit = { requests: 60, windowMs: 60_000 };

/** `false`: no limit. */
export function limitAttempts(limit: AttemptLimit | false = ATTEMPTS, clock: Clock = systemClock): TakeAttempt {
  if (!limit) return () => {};
  return createRateLimit({
    clock,
    perSecond: limit.requests / (limit.windowMs / 1000),
    burst: limit.requests,
    refuse: (seconds) => tooOften('too many attempts from this address, try again later', seconds),
  }).take;
}

export function createRates(clock: Clock = systemClock, credentials = limitAttempts(ATTEMPTS, clock)): Rates {
  const limit = (name: keyof typeof RATES, what: string) =>
    createRateLimit({
      clock,
      ...RATES[name],
      refuse: (seconds) => tooOften(`too many ${what}, try again later`, seconds),
    });
  const unknownTokens = createUnknownTokens(clock);
  const uploads = limit('uploads', 'files of this caller');
  const bytes = limit('bytes', 'bytes of this caller');
  return {
    credentials,
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
