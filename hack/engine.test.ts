import { expect, test } from 'vitest';
import { lowNofileLimit, mountsUnder } from './engine.ts';

test('mounts inside a folder are listed innermost first, without mounts of a folder with a similar name', () => {
  const mounts = ['/', '/d/eng', '/d/eng/a', '/d/eng/a/b', '/d/engine/x', '/d/eng/with\\040blank']
    .map((point) => `overlay ${point} overlay rw 0 0`)
    .join('\n');
  expect(mountsUnder(mounts, '/d/eng')).toEqual(['/d/eng/with blank', '/d/eng/a/b', '/d/eng/a']);
});

test.each([
  ['a limit below what engines use is set for containers', '20000                20000', { soft: 20000, hard: 20000 }],
  [
    'a soft limit below the hard limit is set for containers',
    '1024                 20000',
    { soft: 1024, hard: 20000 },
  ],
  ['an ordinary limit is not set for containers', '1024                 1048576', undefined],
  ['an unlimited process sets no limit for containers', 'unlimited            unlimited', undefined],
])('%s', (_, values, expected) => {
  const limits = `Limit                     Soft Limit           Hard Limit           Units\nMax open files            ${values}                files\n`;
  expect(lowNofileLimit(limits)).toEqual(expected);
});
