/** Delays between attempts. */

export interface Backoff {
  readonly baseMs: number;
  readonly factor: number;
  readonly maxMs: number;
  /** Share of the delay that is random: 0.5 means between half of it and all of it. */
  readonly jitter: number;
}

/** Delay after the `failures`-th consecutive failure (1 = the first): exponential, capped, spread downwards by jitter. */
export function backoffDelay(backoff: Backoff, failures: number, random: () => number): number {
  const full = Math.min(backoff.maxMs, backoff.baseMs * backoff.factor ** Math.max(0, failures - 1));
  return full * (1 - backoff.jitter * random());
}

/** `ms` spread evenly by +-`share`. For periods that must not be synchronous across a fleet. */
export function jittered(ms: number, share: number, random: () => number): number {
  return ms * (1 + share * (2 * random() - 1));
}
