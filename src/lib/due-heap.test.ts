import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createDueHeap } from './due-heap.ts';

test('after any sequence of sets and deletes the earliest key is on top and each key counts once', () => {
  const step = fc.record({ key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'), due: fc.option(fc.nat(50)) });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 200 }), (steps) => {
      const heap = createDueHeap();
      const model = new Map<string, number>();
      for (const { key, due } of steps) {
        if (due === null) {
          heap.delete(key);
          model.delete(key);
        } else {
          heap.set(key, due);
          model.set(key, due);
        }
        expect(heap.size).toBe(model.size);
        expect(heap.peek()?.due).toBe(model.size === 0 ? undefined : Math.min(...model.values()));
      }
      const drained: number[] = [];
      for (let top = heap.peek(); top; top = heap.peek()) {
        expect(model.get(top.key)).toBe(top.due);
        drained.push(top.due);
        heap.delete(top.key);
      }
      expect(drained).toEqual([...model.values()].sort((a, b) => a - b));
    }),
  );
});
