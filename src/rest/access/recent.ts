/** Keys that were added within a time; a bounded number of them. */
export interface Recent {
  add(key: string): void;
  delete(key: string): void;
  has(key: string): boolean;
}

export interface RecentOptions {
  lifetimeMs: number;
  /** maximum of keys; beyond it the key that was added first is dropped */
  capacity: number;
  /** monotonic milliseconds */
  now: () => number;
}

export function createRecent({ lifetimeMs, capacity, now }: RecentOptions): Recent {
  /** until when, in the order in which they were added */
  const keys = new Map<string, number>();
  return {
    add(key) {
      keys.delete(key);
      if (keys.size >= capacity) for (const oldest of keys.keys()) if (keys.delete(oldest)) break;
      keys.set(key, now() + lifetimeMs);
    },
    delete: (key) => void keys.delete(key),
    has: (key) => (keys.get(key) ?? Number.NEGATIVE_INFINITY) > now(),
  };
}
