import { describe, expect, test } from 'vitest';
import { parseYaml } from './yaml.ts';

/** Each map merges the map before it twice. */
const doubling = (levels: number) =>
  `a0: &a0 {k: 1}\n${Array.from({ length: levels }, (_, i) => `a${i + 1}: &a${i + 1} {<<: [*a${i}, *a${i}]}\n`).join('')}`;

const largeMap = (keys: number) => `a: &a {${Array.from({ length: keys }, (_, i) => `k${i}: 1`)}}\n`;
const merges = (times: number) => Array.from({ length: times }, (_, i) => `m${i}: {<<: *a}\n`).join('');

describe('a file', () => {
  test('may have merges and aliases', () => {
    expect(parseYaml('a: &x {b: 1}\nc: {<<: *x, d: "2"}')).toEqual({ a: { b: 1 }, c: { b: 1, d: '2' } });
    expect(parseYaml('---\nkind: Application\n')).toEqual({ kind: 'Application' });
  });

  test.each([
    [
      'own members over merged ones, wherever they stand',
      'a: &a {x: 1, y: 1}\nb: {x: 2, <<: *a, y: 2}',
      { x: 2, y: 2 },
    ],
    ['earlier merges over later ones', 'a: &a {x: 1}\nc: &c {x: 2, y: 2}\nb: {<<: [*a, *c]}', { x: 1, y: 2 }],
    ['several merge keys', 'a: &a {x: 1}\nc: &c {x: 2, y: 2}\nb: {<<: *a, <<: *c}', { x: 1, y: 2 }],
    ['merges of merged maps', 'a: &a {x: 1}\nc: &c {<<: *a, y: 2}\nb: {<<: *c}', { x: 1, y: 2 }],
    ['merges of a map in place', 'b: {<<: {x: 1}, y: 2}', { x: 1, y: 2 }],
    ['a quoted "<<" as an ordinary key', 'b: {"<<": {x: 1}}', { '<<': { x: 1 } }],
    ['the latest of two anchors of one name', 'a: &a 1\nc: &a 2\nb: *a', 2],
    ['keys that are aliases, numbers and nothing', 'a: &a k\nb: {*a : 1, 2: 3, : 4}', { k: 1, 2: 3, '': 4 }],
    ['numbers, truth and nothing', 'b: [1, 1.5, 0x10, true, null, ~]', [1, 1.5, 16, true, null, null]],
    ['texts with tags', 'b: [!!str 1, !!int "2"]', ['1', 2]],
  ])('may have %s', (_, text, b) => {
    expect((parseYaml(text) as { b: unknown }).b).toEqual(b);
  });

  test('may have merges within merges, each of which is carried out once', () => {
    // 2^120 steps for whoever expands them as written
    expect(parseYaml(doubling(120))).toMatchObject({ a120: { k: 1 } });
  });

  test('may merge as much as the largest application needs', () => {
    const value = parseYaml(largeMap(500) + merges(128)) as Record<string, object>;
    expect(Object.keys(value.m127 ?? {})).toHaveLength(500);
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
    ['of a large map merged often', largeMap(8_000) + merges(250)],
    ['a map that is merged into itself', 'a: &a {b: {<<: *a}}'],
    ['a merge of text', 'a: {<<: b}'],
    ['a merge of lists in a list', 'a: &a [[b]]\nc: {<<: *a}'],
    ['a key that is a list', '{[a, b]: 1}'],
    ['a key in two spellings', 'a: {1: x, "1": y}'],
    ['an alias without an anchor', 'a: *b'],
    ['an alias before its anchor', 'a: *b\nb: &b 1'],
    ['of errors alone', `a: "${'\\q'.repeat(500_000)}"`],
    ['of closing brackets', '] '.repeat(30_000)],
    ['of lines alone', `a: |\n${' \n'.repeat(400_000)}`],
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

  test('with merges beyond the limit is refused with that reason before they are carried out', () => {
    expect(() => parseYaml(largeMap(8_000) + merges(250))).toThrow(/merges more than 65536 members by "<<"/);
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
