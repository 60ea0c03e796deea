import type { KubeObject, Store } from '../kube/mod.ts';

/** What an object adds to which group. */
export type Shares = Iterable<readonly [group: string, amount: number]>;

/** Sums over the objects of a store by group, kept with each change: to read them costs nothing, however many objects there are. */
export function createTally<T extends KubeObject>(
  store: Pick<Store<T>, 'list' | 'subscribe'>,
  sharesOf: (object: T) => Shares,
): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  function add(object: T | undefined, sign: 1 | -1): void {
    for (const [group, amount] of object ? sharesOf(object) : []) {
      const sum = (sums.get(group) ?? 0) + sign * amount;
      if (sum === 0) sums.delete(group);
      else sums.set(group, sum);
    }
  }
  for (const object of store.list()) add(object, 1);
  store.subscribe(({ type, object, previous }) => {
    add(previous, -1);
    if (type === 'set') add(object, 1);
  });
  return sums;
}
