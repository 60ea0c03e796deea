import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join, posix } from 'node:path';

/**
 * Paths of the files of a checkout, relative to it: those that git has and new ones, without what `.gitignore` names, such as
 * what a release or the local stack leaves behind. Throws where git knows no checkout.
 */
export function repositoryFiles(root: string): string[] {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
  const { status, stdout, stderr } = spawnSync('git', args, { cwd: root, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 });
  if (status !== 0)
    throw new Error(`git names no files of ${root}, which has to be a checkout: ${stderr ?? ''}`.trim());
  const paths = new Set(stdout.split('\0').filter((path) => path !== ''));
  return [...paths].filter((path) => existsSync(join(root, path)));
}

/** Whether a file, by its path in the repository, is a test or helps tests: product code may not import it. */
export const isTestFile = (path: string): boolean =>
  path.startsWith('testing/') || path.endsWith('.test.ts') || posix.basename(path).startsWith('_');
