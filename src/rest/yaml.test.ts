import { describe, expect, test } from 'vitest';
import { parseYaml } from './yaml.ts';

describe('a file', () => {
  test('is one YAML document, merges and aliases included', () => {
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
  ])('that is %s is refused', (_, text) => {
    expect(() => parseYaml(text)).toThrow(expect.objectContaining({ status: 400, code: 'MALFORMED_YAML' }));
  });

  test('is refused with the place and without its text', () => {
    expect(() => parseYaml('password: hunter2\nb: [')).toThrow(/line \d+/);
    expect(() => parseYaml('password: "hunter2\nb: [')).not.toThrow(/hunter2/);
  });

  test('with a member called __proto__ changes nothing but itself', () => {
    const value = parseYaml('a: {__proto__: {x: 1}}') as { a: { x?: number } };
    expect(value.a.x).toBeUndefined();
    expect(({} as { x?: number }).x).toBeUndefined();
  });
});
