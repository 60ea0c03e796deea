import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from './paths.ts';

const read = (path: string) => readFileSync(join(ROOT, path), 'utf8');

test('docs/architecture.md lists every folder that has an import rule, and no other', () => {
  const section = read('docs/architecture.md').split(/^## /m)[1] ?? '';
  const listed = [...section.matchAll(/^\| `([^`]+)` \|/gm)].map(([, path]) => path);
  const { layers } = JSON.parse(read('hack/deps.json')) as { layers: Record<string, unknown> };
  expect(listed.toSorted()).toEqual(
    Object.keys(layers)
      .filter((path) => path !== 'package.json')
      .sort(),
  );
});

test('docs/architecture.md lists the subjects in their order', () => {
  const section = read('docs/architecture.md').split(/^## /m)[1] ?? '';
  const table = section.split('| subject | what it is about |')[1] ?? '';
  const listed = [...(table.split('\n\n')[0] ?? '').matchAll(/^\| ([\w-]+) \|/gm)].map(([, subject]) => subject);
  const { subjects } = JSON.parse(read('hack/deps.json')) as { subjects: readonly (readonly string[])[] };
  expect(listed).toEqual(subjects.flat());
});
