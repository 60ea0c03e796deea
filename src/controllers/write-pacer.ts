/** Spreads writes over time: each key gets a place in a queue that advances as fast as the API server bears. */
export interface Pace {
  /** 0 when the turn of this key has come, which uses it up; else the milliseconds until then, as things are. */
  take(key: string): number;
  /** The key no longer wants a turn. */
  release(key: string): void;
  /** What had its turn took so long to be written: beyond {@link EASY_MS} the queue slows down, else it recovers. */
  took(ms: number): void;
  waits(key: string): boolean;
  /** Keys that wait for their turn. */
  readonly waiting: number;
}

/**
 * A write takes some 10 ms. One that takes this long waited for others, here or at the API server: for the cores that
 * polls want as well.
 */
export const EASY_MS = 100;
const SLOWER = 0.7;
/** Of the highest rate. */
const FASTER = 0.05;
const LEAST = 0.1;
/** Sums of fractions are not exact. */
const EPSILON = 1e-6;

/** At most `perSecond` a second, without bursts, and at least a tenth of that. `clock` gives Unix ms. */
export function createPace(perSecond: number, clock: () => number): Pace {
  const places = new Map<string, number>();
  let rate = perSecond;
  /** how far the queue had come, and when */
  let come = 0;
  let at = clock();
  let next = 0;
  const present = () => come + ((clock() - at) / 1000) * rate;
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
      // Of a fleet that is back before its turns came nobody else has to wait for the places.
      if (places.delete(key) && places.size === 0) next = Math.min(next, present() + 1);
    },
    took(ms) {
      come = present();
      at = clock();
      rate = ms > EASY_MS ? Math.max(rate * SLOWER, perSecond * LEAST) : Math.min(rate + perSecond * FASTER, perSecond);
    },
    waits: (key) => places.has(key),
    get waiting() {
      return places.size;
    },
  };
}
