import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cached } from './parts.ts';

test('a part of a release in the cache that was changed is fetched again, an unchanged one is not', async () => {
  const cache = mkdtempSync(join(tmpdir(), 'skerry-cache-'));
  onTestFinished(() => rmSync(cache, { recursive: true }));
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
