import { expect, test } from 'vitest';
import { lowLimits, mountsUnder } from './engine.ts';

test('mounts inside a folder come innermost first, a folder with a like name is another one', () => {
  const mounts = ['/', '/d/eng', '/d/eng/a', '/d/eng/a/b', '/d/engine/x', '/d/eng/with\\040blank']
    .map((point) => `overlay ${point} overlay rw 0 0`)
    .join('\n');
  expect(mountsUnder(mounts, '/d/eng')).toEqual(['/d/eng/with blank', '/d/eng/a/b', '/d/eng/a']);
});

test.each([
  [
    'limits under what engines use are handed on',
    ['20000 20000', '96365 96365'],
    ['nofile=20000:20000', 'nproc=96365:96365'],
  ],
  ['soft under hard', ['1024 20000', 'unlimited unlimited'], ['nofile=1024:20000']],
  ['ordinary limits need nothing', ['1024 1048576', '4194304 4194304'], []],
  ['no limits need nothing', ['unlimited unlimited', 'unlimited unlimited'], []],
])('%s', (_, [files, processes], expected) => {
  const title = 'Limit                     Soft Limit           Hard Limit           Units';
  expect(lowLimits(`${title}\nMax processes ${processes} processes\nMax open files ${files} files\n`)).toEqual(
    expected,
  );
});
