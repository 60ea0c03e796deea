import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { cached } from './parts.ts';

test('a part of a release in the cache that was changed is fetched again, an unchanged one is not', async () => {
  const cache = temporaryFolder();
  let filled = 0;
  const part = async () =>
    cached(
      'part',
      async (draft) => {
        filled++;
        writeFileSync(join(draft, 'node'), 'as pinned');
      },
      cache,
    );
  const folder = await part();
  await part();
  expect(filled).toBe(1);
  writeFileSync(join(folder, 'node'), 'another program');
  await part();
  expect(filled).toBe(2);
  expect(readFileSync(join(folder, 'node'), 'utf8')).toBe('as pinned');
  writeFileSync(join(folder, 'more'), '');
  await part();
  expect(filled).toBe(3);
});
