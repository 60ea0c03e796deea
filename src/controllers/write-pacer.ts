/** Spreads writes over time: each key gets a place in a queue that advances as fast as the API server allows. */
export interface WritePacer {
  /** 0 when it is the turn of this key, which uses it up; else the milliseconds until then at the present rate. */
  take(key: string): number;
  /** Gives up the turn of a key. */
  release(key: string): void;
  /** Takes the duration of a write: beyond {@link SLOW_WRITE_MS} the queue slows down, else it recovers. */
  observeWrite(ms: number): void;
  isWaiting(key: string): boolean;
  /** number of keys that wait for their turn */
  readonly waiting: number;
}

/** A write takes about 10 ms. One of this duration waited, here or at the API server, for CPU that polls need as well. */
export const SLOW_WRITE_MS = 100;
/** factor by which a slow write lowers the rate */
const SLOWER = 0.7;
/** share of the highest rate by which a quick write raises it */
const FASTER = 0.05;
/** lowest rate, as a share of the highest */
const LOWEST = 0.1;
/** Sums of fractions are not exact. */
const EPSILON = 1e-6;

/** At most `perSecond` turns a second, without bursts, and at least a tenth of that. `clock` gives Unix ms. */
export function createWritePacer(perSecond: number, clock: () => number): WritePacer {
  const places = new Map<string, number>();
  let rate = perSecond;
  /** the place that the queue had reached at time `at` */
  let reached = 0;
  let at = clock();
  let next = 0;
  const present = () => reached + ((clock() - at) / 1000) * rate;
  return {
    take(key) {
      const now = present();
      const place = places.get(key) ?? Math.max(next, now);
      if (!places.has(key)) next = place + 1;
      const left = place - now;
      if (left > EPSILON) {
        places.set(key, place);
        return (left / rate) * 1000;
      }
      places.delete(key);
      return 0;
    },
    release(key) {
      // When a whole fleet returns before its turns, later keys must not wait for the released places.
      if (places.delete(key) && places.size === 0) next = Math.min(next, present() + 1);
    },
    observeWrite(ms) {
      reached = present();
      at = clock();
      rate =
        ms > SLOW_WRITE_MS
          ? Math.max(rate * SLOWER, perSecond * LOWEST)
          : Math.min(rate + perSecond * FASTER, perSecond);
    },
    isWaiting: (key) => places.has(key),
    get waiting() {
      return places.size;
    },
  };
}
