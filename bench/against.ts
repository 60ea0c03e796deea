import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from '../hack/paths.ts';
import type { Log } from '../hack/progress.ts';
import type { Length } from './benchmark.ts';
import { comparison, type Result, readReport } from './report.ts';

interface Comparison {
  /** what git calls the earlier version */
  commit: string;
  names: readonly string[];
  length: Length;
  log: Log;
}

const ABORTED = 130;

/**
 * Measures an earlier commit and this checkout in one run: each benchmark with both, one right after the other, so that the state
 * of the machine is the same for both. Who begins alternates. A benchmark that the earlier commit does not have is left out.
 * Returns the table, and whether both have measured everything.
 */
export async function measureAgainst({
  commit,
  names,
  length,
  log,
}: Comparison): Promise<{ text: string; isWhole: boolean }> {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-against-'));
  const earlier = join(folder, 'earlier');
  // The benchmark that runs receives the same signal, and ends; what was made here goes then.
  const stay = () => {};
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, stay);
  try {
    if ((await run('git', ['worktree', 'add', '--detach', earlier, commit])) !== 0)
      throw new Error(`git knows no commit "${commit}"`);
    await install(earlier);
    const versions = [
      { checkout: earlier, file: join(folder, 'earlier.json') },
      { checkout: ROOT, file: join(folder, 'now.json') },
    ] as const;
    for (const [index, name] of names.entries())
      for (const { checkout, file } of index % 2 === 0 ? versions : versions.toReversed()) {
        log(`${name}: ${checkout === ROOT ? 'this checkout' : commit}`);
        const flags = length === 'usual' ? [] : [`--${length}`];
        const args = ['bench/main.ts', name, '--out', file, ...flags];
        if ((await run(process.execPath, args, checkout)) === ABORTED) return { text: '', isWhole: false };
      }
    const [before = [], now = []] = versions.map(({ file }): readonly Result[] => readReport(file).results);
    return { text: comparison(before, now), isWhole: ![...before, ...now].some(({ failed }) => failed) };
  } finally {
    await run('git', ['worktree', 'remove', '--force', earlier]);
    rmSync(folder, { recursive: true, force: true });
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.off(signal, stay);
  }
}

/**
 * The packages of this checkout, where the earlier commit has the same; else its own. They are in its own folder: it may read
 * no other folder, and the links of its workspaces lead to its own sources.
 */
async function install(checkout: string): Promise<void> {
  const [mine, its] = [ROOT, checkout].map((folder) => readFileSync(join(folder, 'package-lock.json'), 'utf8'));
  if (mine !== its) {
    if ((await run('npm', ['ci'], checkout)) !== 0) throw new Error('npm ci failed in the earlier commit');
    return;
  }
  const [from, to] = [join(ROOT, 'node_modules'), join(checkout, 'node_modules')];
  // Links to the same bytes, where both are on one disk.
  if ((await run('cp', ['-alT', from, to])) !== 0 && (await run('cp', ['-aT', from, to])) !== 0)
    throw new Error('the packages of this checkout cannot be copied for the earlier commit');
}

function run(program: string, args: readonly string[], cwd = ROOT): Promise<number | null> {
  const child = spawn(program, args, { cwd, stdio: ['ignore', process.stderr, process.stderr] });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
}
