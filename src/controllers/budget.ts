/**
 * What each key may spend: a burst at once, then at a steady rate. Whoever spends more than there is left waits until it
 * is paid back, so that a dear one is as slow as many cheap ones.
 */
export interface Budget {
  /** Milliseconds until more than `reserve` is left; 0 when it is. */
  waitMs(key: string, reserve?: number): number;
  spend(key: string, units: number): void;
  forget(key: string): void;
}

/** `clock` gives Unix ms. */
export function createBudget({ burst, perSecond }: { burst: number; perSecond: number }, clock: () => number): Budget {
  /** what was left at a time; a key that is not here has all */
  const accounts = new Map<string, { left: number; at: number }>();

  function leftOf(key: string): number {
    const { left = burst, at = 0 } = accounts.get(key) ?? {};
    // a clock that was set back pays nothing back, and takes nothing
    return Math.min(burst, left + (Math.max(0, clock() - at) / 1000) * perSecond);
  }

  return {
    waitMs: (key, reserve = 0) => Math.max(0, Math.ceil(((reserve + 1 - leftOf(key)) / perSecond) * 1000)),
    spend: (key, units) => void accounts.set(key, { left: leftOf(key) - units, at: clock() }),
    forget: (key) => void accounts.delete(key),
  };
}
