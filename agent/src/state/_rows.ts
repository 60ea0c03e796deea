import type { Rows } from './rows.ts';

/** Rows in memory. */
export function memoryRows<T>(): Rows<T> {
  const all = new Map<string, T>();
  return {
    all,
    unreadable: new Map(),
    save: (id, row) => void all.set(id, row),
    remove: (id) => void all.delete(id),
  };
}
