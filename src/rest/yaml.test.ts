import { describe, expect, test } from 'vitest';
import { parseYaml } from './yaml.ts';

describe('a file', () => {
  test('may have merges and aliases', () => {
    expect(parseYaml('a: &x {b: 1}\nc: {<<: *x, d: "2"}')).toEqual({ a: { b: 1 }, c: { b: 1, d: '2' } });
    expect(parseYaml('---\nkind: Application\n')).toEqual({ kind: 'Application' });
  });

  test.each([
    ['empty', ''],
    ['several documents', 'a: 1\n---\nb: 2'],
    ['a key twice', 'a: 1\na: 2'],
    ['no YAML', 'a: [1'],
    ['nested too deeply', `${'['.repeat(100)}${']'.repeat(100)}`],
    ['nested very deeply', '['.repeat(100_000)],
    [
      'a bomb of aliases',
      `a: &a [x,x,x,x,x,x,x,x,x]\n${'bcdefghi'
        .split('')
        .map((c, i) => `${c}: &${c} [${Array(9).fill(`*${'abcdefgh'[i]}`)}]`)
        .join('\n')}`,
    ],
    ['a list within itself', 'a: &a [*a, *a, *a, *a, *a, *a, *a, *a]'],
    ['beyond the limit of values', `a: [${'x,'.repeat(100_000)}]`],
    ['beyond the limit of keys', `{${Array.from({ length: 50_000 }, (_, i) => `k${i}: 1`)}}`],
    [
      'of endless merges',
      `a: &a {${Array.from({ length: 5_000 }, (_, i) => `k${i}: 1`)}}\nb: {<<: [${'*a,'.repeat(9_000)}]}`,
    ],
    ['text that aliases multiply', `a: &a ${'x'.repeat(100_000)}\nb: [${'*a,'.repeat(200)}]`],
    ['keys within keys', '? '.repeat(600)],
    ['keys within keys, of lists', '? - '.repeat(300)],
    ['half of a surrogate pair', 'a: "\\ud800"'],
    ['text with NUL', 'a: "x\\0y"'],
    ['of many documents', '---\n'.repeat(50_000)],
  ])('that is %s is refused with the reason within a second', (_, text) => {
    const began = performance.now();
    expect(() => parseYaml(text)).toThrow(
      expect.objectContaining({
        status: 400,
        code: 'MALFORMED_YAML',
        message: expect.stringMatching(/^the file .{5,}/),
      }),
    );
    // It takes a few ms; without limits parsing takes minutes, or never ends.
    expect(performance.now() - began).toBeLessThan(5_000);
  });

  test('with aliases that multiply values is refused with that reason', () => {
    const text = `a: &a [x,x,x,x,x,x,x,x,x]\n${Array.from('bcdefghi', (c, i) => `${c}: &${c} [${Array(9).fill(`*${'abcdefgh'[i]}`)}]`).join('\n')}`;
    expect(() => parseYaml(text)).toThrow(/once its aliases are followed/);
  });

  test('may use one anchor for each of many entries', () => {
    const entries = Array.from({ length: 128 }, (_, i) => `  - {<<: *base, name: n${i}}`).join('\n');
    const value = parseYaml(`base: &base {agent: {name: gw}}\nentries:\n${entries}`) as { entries: unknown[] };
    expect(value.entries[127]).toEqual({ agent: { name: 'gw' }, name: 'n127' });
  });

  test('is refused with line and column and without its text', () => {
    expect(() => parseYaml('password: hunter2\nb: [')).toThrow(/line \d+/);
    expect(() => parseYaml('password: "hunter2\nb: [')).not.toThrow(/hunter2/);
  });

  test('with a member __proto__ changes no prototype', () => {
    const value = parseYaml('a: {__proto__: {x: 1}}') as { a: { x?: number } };
    expect(value.a.x).toBeUndefined();
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});
