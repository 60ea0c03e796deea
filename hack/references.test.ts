import { readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { describe, expect, test } from 'vitest';
import { ROOT } from './paths.ts';
import { findBrokenReferences, reachableFiles, slugsOf } from './references.ts';
import { repositoryFiles } from './repository.ts';

const PATHS = [
  'docs/a.md',
  'docs/spec/b.md',
  'src/kube/store.ts',
  'src/kube/store.test.ts',
  'agent/src/app.ts',
  'agent/src/app.test.ts',
];

function broken(file: string, text: string): string[] {
  const files = new Map([
    ['docs/a.md', '# Title\n\n## A heading, with `code`\n'],
    ['docs/spec/b.md', '# B\n'],
    ['src/kube/store.test.ts', "test('a store finds by index', () => {})"],
    ['agent/src/app.test.ts', "import { contract } from './_contract.ts';"],
    ['agent/src/_contract.ts', "test('a promise that is shared', () => {})"],
    [file, text],
  ]);
  return findBrokenReferences(files, [...PATHS, file]).map(({ line, reason }) => `${line}: ${reason}`);
}

describe('a reference is accepted:', () => {
  test.each([
    ['a comment that cites a page', 'src/x.ts', '// See docs/a.md.'],
    ['a comment that cites a heading', 'src/x.ts', '// (docs/a.md#a-heading-with-code)'],
    ['a link relative to its page', 'docs/spec/c.md', '[a](../a.md#title)'],
    ['a link within its page', 'docs/spec/c.md', '## Here\n[a](#here)'],
    ['a link to another site', 'docs/c.md', '[a](https://example.com/docs/none.md)'],
    ['a folder', 'docs/c.md', '`src/kube`, `src/kube/`'],
    ['the beginning of a path, as a filter of tests', 'docs/c.md', '`npx vitest run src/kube/sto`'],
    ['a path relative to its page', 'agent/README.md', '`src/app.ts`'],
    ['the name of a file', 'docs/c.md', '`store.ts`, `kube/store.ts`'],
    ['the name of a folder', 'docs/c.md', '`kube/`'],
    ['a part of the title of a test', 'docs/c.md', "`npx vitest run src/kube -t 'by index'`, `-t index`"],
    [
      'a title of a test in the file of the row before',
      'docs/c.md',
      '| a | `npx vitest run src/kube` |\n| b | same |\n| c | same, `-t index` |',
    ],
    [
      'a title in a helper that the file of the command imports',
      'docs/c.md',
      '`npx vitest run agent/src/app -t shared`',
    ],
    ['a path with a placeholder', 'docs/c.md', '`src/kinds/<kind>.ts`, `src/none/*.ts`'],
  ])('%s', (_, file, text) => {
    expect(broken(file, text)).toEqual([]);
  });
});

describe('a reference is reported as broken:', () => {
  test.each([
    ['a page that does not exist', 'src/x.ts', '\n// docs/none.md', '2: there is no docs/none.md'],
    ['a heading that does not exist', 'src/x.ts', '// docs/a.md#none', '1: docs/a.md has no heading #none'],
    ['a link to a page that does not exist', 'docs/spec/c.md', '[a](a.md)', '1: there is no docs/spec/a.md'],
    ['a link to a heading that does not exist', 'docs/c.md', '[a](a.md#none)', '1: docs/a.md has no heading #none'],
    [
      'a path in a code span that does not exist',
      'docs/c.md',
      'See `src/kube/none.ts`.',
      '1: there is no src/kube/none.ts',
    ],
    ['the name of a file that does not exist', 'docs/c.md', '`none.ts`', '1: there is no none.ts'],
    ['the name of a folder that does not exist', 'docs/c.md', '`none/`', '1: there is no none/'],
    ['a title that no test has', 'docs/c.md', "`-t 'by name'`", '1: no test is titled by name'],
    [
      'a title of a test in another file than that of the command',
      'docs/c.md',
      "`npx vitest run agent/src/app.test.ts -t 'by index'`",
      '1: no test of agent/src/app.test.ts is titled by index',
    ],
    [
      'a title of a test in another file than that of the row before',
      'docs/c.md',
      '| a | `npx vitest run agent/src/app.test.ts` |\n| b | same, `-t index` |',
      '2: no test of agent/src/app.test.ts is titled index',
    ],
    ['a path in a command that does not exist', 'docs/c.md', '`npx vitest run src/none`', '1: there is no src/none'],
    [
      'a document outside the repository',
      'src/x.ts',
      `// ${'gaps'}-02 section 4`,
      '1: cites a document that is not in the repository',
    ],
  ])('%s', (_, file, text, reason) => {
    expect(broken(file, text)).toEqual([reason]);
  });
});

test('headings have the same fragments as on GitHub', () => {
  const page = "# Replacing an application's state\n## `a_b` and C-D\n## Twice\n## Twice\n```\n# no heading\n```\n";
  expect([...slugsOf(page)]).toEqual(['replacing-an-applications-state', 'a_b-and-c-d', 'twice', 'twice-1']);
});

test('every link of the pages of a release leads to a file of the release', () => {
  const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');
  const files = reachableFiles(['CHANGELOG.md', 'SECURITY.md'], repositoryFiles(ROOT), read);
  expect(files).toContain('docs/spec/identity-and-access.md');
  const missing = files
    .filter((path) => path.endsWith('.md'))
    .flatMap((path) =>
      [...read(path).matchAll(/\]\((?![a-z]+:|#)([^)\s#]+)/g)].map(([, to = '']) =>
        posix.join(posix.dirname(path), to),
      ),
    )
    .filter((to) => !files.some((file) => `${file}/`.startsWith(`${to.replace(/\/$/, '')}/`)));
  expect(missing).toEqual([]);
});

test('every page applies files server-side, but where it shows what a plain apply warns of', () => {
  const pages = repositoryFiles(ROOT).filter((path) => path.endsWith('.md'));
  const plain = pages.flatMap((path) => {
    const lines = readFileSync(join(ROOT, path), 'utf8').split('\n');
    return lines.flatMap((line, at) =>
      /^ {4}.*\bkubectl (?:-n \S+ )?apply (?!.*--server-side)/.test(line) && !/^ {4}Warning: /.test(lines[at + 1] ?? '')
        ? [`${path}:${at + 1}: ${line.trim()}`]
        : [],
    );
  });
  expect(pages).toContain('docs/resources/applications.md');
  expect(plain).toEqual([]);
});
