import { expect, test } from 'vitest';
import { filesAlone } from './alone.ts';

test('a file that measures its process has a process of its own, and other files share one', () => {
  const alone = filesAlone(['src/**/*.test.ts'], ['**/*.api.test.ts']);
  // The cost of edits, turns of the event loop, and memory.
  expect(alone).toEqual(
    expect.arrayContaining(['src/edit-cost.test.ts', 'src/event-loop.test.ts', 'src/wire/frames.test.ts']),
  );
  expect(alone).not.toContain('src/rules/budget.test.ts');
  expect(alone.some((file) => file.endsWith('.api.test.ts'))).toBe(false);
});
