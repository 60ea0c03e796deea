import { describe, expect, test } from 'vitest';
import { addedLines, compareCounts, type Finding, findInCode, findInPage, findInSubject } from './language.ts';

const places = (findings: readonly Finding[]) => findings.map(({ count, line, text }) => `${count}:${line}: ${text}`);

describe('findInCode', () => {
  test.each([
    ['a line comment', '// A node, and one that waits.', ['pronouns in code:1: one that']],
    ['the wrapped line of line comments', 'f(); // one\n// that waits', ['pronouns in code:1: one that']],
    ['the wrapped line of a block', '/**\n * the name is that\n * of a node\n */', ['pronouns in code:2: that of']],
    ['a comment behind wide characters', "const a = '→→';\n// was Told", ['verbs in code:2: Told']],
  ])('reads %s', (_, code, expected) => {
    expect(places(findInCode('src/a.ts', code))).toEqual(expected);
  });

  test('ignores code, strings, code spans, and words of separate comments', () => {
    const code = "const held = 'one that';\n// `held`, `what is`\nf(); // one\ng(); // that\n";
    expect(findInCode('src/a.ts', code)).toEqual([]);
  });

  test('reads the titles of tests and of their describes', () => {
    const code = "describe('what is left', () => { test.each([['told']])('a node is told', f); });";
    expect(places(findInCode('src/a.test.ts', code))).toEqual(['pronouns in code:1: what is', 'verbs in code:1: told']);
    expect(findInCode('src/a.ts', code)).toEqual([]);
  });

  test.each([
    ['a predicate without a describe', "test('is refused', f)", true],
    ['a predicate after the describe of its subject', "describe('a link', () => test('is refused', f))", false],
    ['a predicate after a describe of a condition', "describe('without a link', () => test('is kept', f))", true],
    ['a relative pronoun, with a describe', "describe('a link', () => test.skipIf(x)('that ends is kept', f))", true],
    ['a conjunction, with a describe', "describe('a link', () => test.each([1])(`and its end`, f))", true],
    ['a sentence', "test('a link is refused', f)", false],
  ])('judges a title of %s', (_, code, isTail) => {
    expect(findInCode('src/a.test.ts', code).map(({ count }) => count)).toEqual(isTail ? ['titles'] : []);
  });
});

test('a page counts outside of code and of targets of links', () => {
  const page = [
    'It is gone `held` [here](held.md).',
    '```\nheld\n```',
    '',
    '    held',
    '',
    '    what is',
    'one that',
    `long ${'x '.repeat(90)}`,
    `| ${'y '.repeat(90)} |`,
    '- item',
    '    told in an item',
  ].join('\n');
  expect(places(findInPage('README.md', page))).toEqual([
    'long lines:10: 185 characters',
    'pronouns in pages:9: one that',
    'verbs in pages:13: told',
    'verbs in pages:1: gone',
  ]);
});

test.each([
  ['agent: refuse redirects to loopback', true],
  ['agent, rest: process a late report', true],
  ['Revert "agent: a"', true],
  ['Refuse redirects', false],
  ['agent: refuses redirects', false],
  ['agent: redirects are refused', false],
  ['agent: the redirect is refused', false],
  ['agent: clock, back-off and log are leaves', false],
  [`agent: refuse ${'x'.repeat(58)}`, true],
  [`agent: refuse ${'x'.repeat(59)}`, false],
])('the commit subject "%s" is accepted: %j', (subject, isAccepted) => {
  expect(findInSubject('abc', subject)).toHaveLength(isAccepted ? 0 : 1);
});

describe('compareCounts', () => {
  const finding = (line: number): Finding => ({
    count: 'titles',
    file: 'a.test.ts',
    line,
    text: 'is',
    better: 'a b is',
  });
  const compare = (lines: number[], bound: number, fresh: number[] = []) =>
    compareCounts(lines.map(finding), { titles: bound }, ({ line = 0 }) => fresh.includes(line));

  test('accepts a count at its bound', () => {
    expect(compare([1, 2], 2)).toEqual([]);
  });

  test('asks for a lower bound below it, with the command', () => {
    expect(compare([1], 2)).toEqual([expect.stringMatching(/^titles: 1, fewer than 2\. .*language\.ts --lower$/)]);
  });

  test('lists the new findings above a bound, or all when none is new', () => {
    const header = 'titles: 2, more than 1. Write one of these in another way:';
    expect(compare([1, 2], 1, [2])).toEqual([`${header}\n  a.test.ts:2: "is"; better: a b is`]);
    expect(compare([1, 2], 1)[0]?.split('\n')).toHaveLength(3);
  });
});

test('the added lines of a diff are counted on its new side', () => {
  const diff = '--- a/x\n+++ b/y.ts\n@@ -1,2 +3 @@\n+a\n@@ -9 +9,2 @@\n+b\n+c\n@@ -20,2 +20,0 @@\n-d';
  expect([...addedLines(diff)]).toEqual(['y.ts:3', 'y.ts:9', 'y.ts:10']);
});
