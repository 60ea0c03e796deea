import type { Rows } from './rows.ts';

/** Rows in memory. */
export function memoryRows<T>(all = new Map<string, T>()): Rows<T> {
  const unreadable = new Map<string, string>();
  return {
    all,
    unreadable,
    save: (id, row) => {
      all.set(id, structuredClone(row));
      unreadable.delete(id);
    },
    remove: (id) => {
      all.delete(id);
      unreadable.delete(id);
    },
  };
}
