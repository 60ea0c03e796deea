/** Spreads work over time: `take` says how many milliseconds to wait until one more may go. 0 means now, and takes it. */
export interface Pace {
  take(): number;
}

/** At most `perSecond` a second, without bursts. `clock` gives Unix ms. */
export function createPace(perSecond: number, clock: () => number): Pace {
  const step = 1000 / perSecond;
  let next = 0;
  return {
    take() {
      const now = clock();
      if (now < next) return next - now;
      next = Math.max(next, now - step) + step;
      return 0;
    },
  };
}
