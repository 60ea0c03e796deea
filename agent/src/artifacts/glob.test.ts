import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isSelected, matchesGlob } from './glob.ts';

test.each([
  ['*.gguf', 'tiny.gguf', true],
  ['*.gguf', 'sub/tiny.gguf', false],
  ['**/*.gguf', 'sub/deep/tiny.gguf', true],
  ['**/*.gguf', 'tiny.gguf', true],
  ['**', 'any/where', true],
  ['sub/**', 'sub/a/b', true],
  ['sub/**', 'other/a', false],
  ['model-?.bin', 'model-1.bin', true],
  ['model-?.bin', 'model-10.bin', false],
  ['config.json', 'config.json', true],
  ['config.json', 'configXjson', false],
  ['[a].txt', 'a.txt', false],
  ['[a].txt', '[a].txt', true],
  ['a**b', 'axxb', true],
  ['', 'a', false],
])('the glob %s on %s gives %s', (glob, path, expected) => {
  expect(matchesGlob(glob, path)).toBe(expected);
});

test('without globs every file is selected, with some those that one of them matches', () => {
  expect(isSelected([], 'a/b')).toBe(true);
  expect(isSelected(['*.txt', 'b'], 'b')).toBe(true);
  expect(isSelected(['*.txt', 'b'], 'c')).toBe(false);
});

test('every path matches itself, and ** before it', () => {
  const segment = fc.stringMatching(/^[a-z.]{1,6}$/);
  fc.assert(
    fc.property(fc.array(segment, { minLength: 1, maxLength: 5 }), (segments) => {
      const path = segments.join('/');
      expect(matchesGlob(path, path)).toBe(true);
      expect(matchesGlob(`**/${segments.at(-1)}`, path)).toBe(true);
    }),
  );
});

test('a hostile glob of the longest allowed length takes no time', () => {
  const began = performance.now();
  expect(matchesGlob(`${'*a'.repeat(120)}b`, 'a'.repeat(4000))).toBe(false);
  expect(matchesGlob(`${'**/a/'.repeat(50)}b`, 'a/'.repeat(2000))).toBe(false);
  expect(performance.now() - began).toBeLessThan(2000);
});
