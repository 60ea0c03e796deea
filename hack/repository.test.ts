import { execFileSync } from 'node:child_process';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { ROOT } from './paths.ts';
import { repositoryFiles } from './repository.ts';

test('the files of a checkout are the tracked ones and new ones, without what .gitignore names and what was removed', () => {
  const folder = temporaryFolder();
  const git = (...args: string[]) => execFileSync('git', args, { cwd: folder });
  git('init', '--quiet');
  for (const name of ['.gitignore', 'kept.md', 'removed.md']) writeFileSync(join(folder, name), 'dist/\n');
  git('add', '--all');
  rmSync(join(folder, 'removed.md'));
  mkdirSync(join(folder, 'dist'));
  for (const name of ['new.md', 'dist/SECURITY.md']) writeFileSync(join(folder, name), '');
  expect(repositoryFiles(folder).sort()).toEqual(['.gitignore', 'kept.md', 'new.md']);
});

test('the checkout of this test has its own file among its files', () => {
  expect(repositoryFiles(ROOT)).toContain('hack/repository.test.ts');
});
