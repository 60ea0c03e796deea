interface Item {
  key: string;
  due: number;
}

/**
 * Keys ordered by due time, each at most once: a binary heap with the index of each key. `set` and `delete` cost O(log n),
 * and the size is the number of keys however often their times change.
 */
export function createDueHeap() {
  const heap: Item[] = [];
  const places = new Map<string, number>();
  const dueAt = (index: number) => heap[index]?.due ?? Number.POSITIVE_INFINITY;

  function put(item: Item, index: number) {
    heap[index] = item;
    places.set(item.key, index);
  }

  /** Moves the item at `index` up or down until the order of the heap is correct. */
  function settle(index: number) {
    const item = heap[index];
    if (!item) return;
    let hole = index;
    for (let parent = (hole - 1) >> 1; hole > 0 && item.due < dueAt(parent); parent = (hole - 1) >> 1) {
      put(heap[parent] as Item, hole);
      hole = parent;
    }
    for (;;) {
      const left = 2 * hole + 1;
      const child = dueAt(left + 1) < dueAt(left) ? left + 1 : left;
      if (dueAt(child) >= item.due) break;
      put(heap[child] as Item, hole);
      hole = child;
    }
    put(item, hole);
  }

  function remove(key: string) {
    const index = places.get(key);
    const last = heap.at(-1);
    if (index === undefined || !last) return;
    heap.pop();
    places.delete(key);
    if (last.key === key) return;
    put(last, index);
    settle(index);
  }

  return {
    /** The key that is due first. */
    peek: (): Readonly<Item> | undefined => heap[0],
    /** Adds a key or changes its time. */
    set(key: string, due: number) {
      const index = places.get(key) ?? heap.length;
      put({ key, due }, index);
      settle(index);
    },
    delete: remove,
    get size() {
      return heap.length;
    },
  };
}
