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
