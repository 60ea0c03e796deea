import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { removeWritableTree } from './tree.ts';

describe('removeWritableTree', () => {
  let trash: string;
  let outside: string;
  beforeEach(() => {
    const folder = temporaryFolder();
    [trash, outside] = [join(folder, 'trash'), join(folder, 'outside')];
    mkdirSync(trash);
    mkdirSync(outside);
    writeFileSync(join(outside, 'precious'), '');
  });

  test('removes files, links and directories, and nothing that links lead to', async () => {
    const path = join(trash, 'a');
    mkdirSync(join(path, 'b', 'c'), { recursive: true });
    writeFileSync(join(path, 'b', 'file'), '');
    symlinkSync(outside, join(path, 'b', 'link'));
    symlinkSync(join(outside, 'precious'), join(path, 'b', 'c', 'link'));
    await removeWritableTree(path, 100);
    expect(readdirSync(trash)).toEqual([]);
    expect(readdirSync(outside)).toEqual(['precious']);
  });

  test.each(['file', 'link'])('removes a %s in place of a directory', async (kind) => {
    const path = join(trash, 'a');
    kind === 'file' ? writeFileSync(path, '') : symlinkSync(outside, path);
    await removeWritableTree(path, 100);
    expect(existsSync(path)).toBe(false);
    expect(readdirSync(outside)).toEqual(['precious']);
  });

  test('needs several calls for a deep or wide tree, and each is bounded', async () => {
    const path = join(trash, 'a');
    mkdirSync(join(path, ...Array<string>(300).fill('d')), { recursive: true });
    for (let i = 0; i < 300; i++) writeFileSync(join(path, String(i)), '');
    let calls = 0;
    for (let names = ['a']; names.length > 0; names = readdirSync(trash)) {
      expect(await removeWritableTree(join(trash, names[0] ?? ''), 100)).toBeLessThanOrEqual(102);
      calls++;
    }
    expect(calls).toBeGreaterThan(5);
  });
});
