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

/** The definition, letter by letter; its time grows with the number of ways to match. */
function selects(glob: string, path: string): boolean {
  if (glob === '') return path === '';
  if (/^\*\*(\/|$)/.test(glob)) {
    const rest = glob.slice(3);
    if (glob === '**') return true;
    const ends = [...path.matchAll(/\//g)].map(({ index }) => index + 1);
    return [0, ...ends].some((from) => wholeSegments(rest, path.slice(from)));
  }
  return wholeSegments(glob, path);
}

function wholeSegments(glob: string, path: string): boolean {
  const [segment = '', ...globs] = glob.split('/');
  if (segment === '**') return selects(glob, path);
  const [name = '', ...names] = path.split('/');
  if (!letters([...segment], [...name])) return false;
  if (globs.length === 0) return names.length === 0;
  return names.length > 0 ? selects(globs.join('/'), names.join('/')) : globs.every((one) => one === '**');
}

function letters([first, ...glob]: readonly string[], name: readonly string[]): boolean {
  if (first === undefined) return name.length === 0;
  if (first === '*') return letters(glob, name) || (name.length > 0 && letters([first, ...glob], name.slice(1)));
  return name.length > 0 && (first === '?' || first === name[0]) && letters(glob, name.slice(1));
}

test('any glob selects the files that its definition says', () => {
  const piece = fc.constantFrom('*', '**', '?', 'a', 'b', 'ab', '.', 'é', '😀', '[a]', '(', '$', '+');
  const segments = fc.array(fc.array(piece, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 4 });
  const text = segments.map((all) => all.map((one) => one.join('')).join('/'));
  fc.assert(
    fc.property(text, text, fc.boolean(), (glob, other, isMachinesOwn) => {
      // A path that the glob was made from is selected more often.
      const path = (isMachinesOwn ? glob : other).replaceAll('*', 'a').replaceAll('?', 'b');
      expect(matchesGlob(glob, path)).toBe(selects(glob, path));
    }),
    { seed: 1, numRuns: 5_000 },
  );
});

test('any glob of the longest allowed length takes no time', () => {
  const piece = fc.constantFrom('*', '**', '**/', '/', '?', 'a', '*a', 'a*', 'b', '😀');
  const before = process.cpuUsage();
  fc.assert(
    fc.property(fc.array(piece, { minLength: 1, maxLength: 6 }), fc.array(piece, { maxLength: 4 }), (glob, path) => {
      const long = glob.join('').repeat(4_096).slice(0, 4_096);
      matchesGlob(long, (path.join('') || 'a').repeat(1_024).slice(0, 1_024));
    }),
    { seed: 1, numRuns: 100 },
  );
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1_000 / 100).toBeLessThan(100);
});

test('a hostile glob of the longest allowed length takes no time', () => {
  const began = performance.now();
  expect(matchesGlob(`${'*a'.repeat(120)}b`, 'a'.repeat(4000))).toBe(false);
  expect(matchesGlob(`${'**/a/'.repeat(50)}b`, 'a/'.repeat(2000))).toBe(false);
  expect(performance.now() - began).toBeLessThan(2000);
});
