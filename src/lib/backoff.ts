/** Delays between attempts. */

export type Backoff = {
  readonly baseMs: number;
  readonly factor: number;
  readonly maxMs: number;
} & (
  | {
      /** Share of the delay that is random: 0.5 means between half of it and all of it. */
      readonly jitter: number;
    }
  | {
      /** Share of the delay by which it is shorter or longer: 0.5 means between half of it and one and a half times. */
      readonly spread: number;
    }
);

/** Delay in ms after the `failures`-th consecutive failure (1 = the first): exponential, capped, then made random. */
export function backoffDelay(backoff: Backoff, failures: number, random: () => number): number {
  const full = Math.min(backoff.maxMs, backoff.baseMs * backoff.factor ** Math.max(0, failures - 1));
  return 'spread' in backoff ? jittered(full, backoff.spread, random) : full * (1 - backoff.jitter * random());
}

/** `ms` spread evenly by +-`share`. For periods that must not be synchronous across a fleet. */
export function jittered(ms: number, share: number, random: () => number): number {
  return ms * (1 + share * (2 * random() - 1));
}
