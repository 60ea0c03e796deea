/** A source of pseudorandom numbers: the same seed makes the same story. */
export interface Chance {
  /** in [0, 1) */
  next(): number;
  /** an integer, both ends included */
  between(least: number, most: number): number;
  pick<T>(items: readonly T[]): T;
  /** one of them, with a probability in proportion to its weight */
  weighted<T>(items: readonly (readonly [weight: number, item: T])[]): T;
  /** true with this probability */
  happens(probability: number): boolean;
}

/** mulberry32: 32 bits of state are enough for a story. */
export function chance(seed: number): Chance {
  let state = Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const between = (least: number, most: number) => least + Math.floor(next() * (most - least + 1));
  return {
    next,
    between,
    pick: (items) => {
      const item = items[between(0, items.length - 1)];
      if (item === undefined) throw new Error('nothing to pick from');
      return item;
    },
    weighted: (items) => {
      let left = next() * items.reduce((sum, [weight]) => sum + weight, 0);
      for (const [weight, item] of items) {
        left -= weight;
        if (left < 0) return item;
      }
      return (items.at(-1) as readonly [number, (typeof items)[number][1]])[1];
    },
    happens: (probability) => next() < probability,
  };
}
