/** Random choices that are the same for a seed, for tests that carry out one long run. */
export function draws(seed: number) {
  let state = seed >>> 0;
  /** a number below `below` */
  const next = (below: number): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
  const pick = <T>(of: readonly T[]): T => of[next(of.length)] as T;
  /** one to `most` different ones */
  const some = <T>(of: readonly T[], most: number): T[] => [
    ...new Set(Array.from({ length: 1 + next(most) }, () => pick(of))),
  ];
  return { next, pick, some };
}
