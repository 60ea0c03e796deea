import { join } from 'node:path';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { fileNameProblem, fileNamesProblem } from './file-name.ts';

test.each(['../x', 'a/../b', '/etc/passwd', 'a//b', '.', '', 'a/', 'a\\b', 'a\nb', 'a\0b', `${'a'.repeat(256)}`])(
  'the file name %j is refused',
  (path) => {
    expect(fileNameProblem(path)).toBeDefined();
  },
);

test('a file name that is accepted stays below the directory that it is joined to', () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constantFrom('..', '.', 'a', ''), fc.string({ maxLength: 5 })), { maxLength: 6 }),
      (parts) => {
        const path = parts.join('/');
        if (fileNameProblem(path) === undefined) expect(join('/store/x', path)).toMatch(/^\/store\/x\/./);
      },
    ),
  );
});

test('two files with one name, and a file that is also a directory, are refused', () => {
  expect(fileNamesProblem(['a', 'b/c'])).toBeUndefined();
  expect(fileNamesProblem(['a', 'a'])).toMatch(/two files/);
  expect(fileNamesProblem(['a/b', 'a'])).toMatch(/directory/);
});
