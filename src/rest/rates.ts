import { createRateLimit } from '../http/rate-limit.ts';
import { type Clock, systemClock } from '../kube/clock.ts';
import { tooOften } from './errors.ts';

/** How often something may be asked: so many in the long run, and so many at once. */
const RATES = {
  /** routes that passwords and codes can be guessed at, per address (docs/spec/rest-v3.md#rate-limits) */
  credentials: { perSecond: 1, burst: 60 },
  /** tokens that the cluster had to be asked about and that stood for nobody, per address */
  unknownTokens: { perSecond: 1, burst: 60 },
  /** files, per caller: a large one takes the process a quarter of a second to read */
  uploads: { perSecond: 10, burst: 120 },
  /** bytes of bodies, per caller: a megabyte of JSON takes it a twentieth */
  bytes: { perSecond: 4 * 2 ** 20, burst: 32 * 2 ** 20 },
} as const;

/** Keeps one caller from using up what all need. Each method throws 429 with Retry-After. */
export interface Rates {
  credentials(address: string): void;
  upload(caller: string): void;
  /** Before a body is read; what arrives of it is charged to the caller. */
  body(caller: string): (bytes: number) => void;
  /** Before the cluster is asked about a token. */
  unknownToken(address: string): void;
  /** It stood for nobody. */
  wrongToken(address: string): void;
}

export function createRates(clock: Clock = systemClock): Rates {
  const limit = (name: keyof typeof RATES, what: string) =>
    createRateLimit({
      clock,
      ...RATES[name],
      refuse: (seconds) => tooOften(`too many ${what}, try again later`, seconds),
    });
  const credentials = limit('credentials', 'attempts from this address');
  const unknownTokens = limit('unknownTokens', 'wrong tokens from this address');
  const uploads = limit('uploads', 'files of this caller');
  const bytes = limit('bytes', 'bytes of this caller');
  return {
    credentials: credentials.take,
    upload: uploads.take,
    body(caller) {
      bytes.take(caller);
      return (more) => bytes.charge(caller, more);
    },
    unknownToken: unknownTokens.check,
    wrongToken: unknownTokens.count,
  };
}
