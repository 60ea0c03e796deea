/** Spreads work over time: each key gets a place in a queue that advances at a fixed rate. */
export interface Pace {
  /** 0 when the turn of this key has come, which uses it up; else the milliseconds until then. */
  take(key: string): number;
  /** The key no longer wants a turn. */
  release(key: string): void;
  /** Keys that wait for their turn. */
  readonly waiting: number;
}

/** At most `perSecond` a second, without bursts. `clock` gives Unix ms. */
export function createPace(perSecond: number, clock: () => number): Pace {
  const step = 1000 / perSecond;
  const turns = new Map<string, number>();
  let next = 0;
  return {
    take(key) {
      const now = clock();
      const turn = turns.get(key) ?? Math.max(next, now);
      if (!turns.has(key)) next = turn + step;
      if (turn <= now) turns.delete(key);
      else turns.set(key, turn);
      return Math.max(0, turn - now);
    },
    release(key) {
      turns.delete(key);
    },
    get waiting() {
      return turns.size;
    },
  };
}
