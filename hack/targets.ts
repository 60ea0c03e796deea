import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ROOT } from './paths.ts';
import { formatDuration } from './progress.ts';

/**
 * Walks every ordered pair of the targets of the Makefile, each target also after itself, in one clone of the commit: what a
 * target leaves behind must not make the next one fail, and none may leave files that git does not ignore. Long targets have
 * a short form, which reads and writes the same places: `node hack/targets.ts [target...]`.
 *
 * `e2e` and `nightly` are left out: they write nothing into the checkout but what the tests they run do.
 */
const TARGETS: Readonly<Record<string, readonly string[]>> = {
  up: ['make', 'up', 'ONCE=1', 'SAMPLE=0'],
  check: [process.execPath, '--input-type=module', '-e', checksAlone()],
  test: [
    process.execPath,
    'node_modules/vitest/vitest.mjs',
    'run',
    '--project',
    'api',
    'src/replicas/replicas.api.test.ts',
  ],
  release: ['make', 'release'],
  bench: [process.execPath, 'bench/main.ts', '--short', 'poll'],
  clean: ['make', 'clean'],
};

const INSTALLED = 'node_modules/.package-lock.json';

function checksAlone(): string {
  return `import { runChecks } from './hack/check.ts';
    process.exitCode = (await runChecks()).some(({ failed }) => failed > 0) ? 1 : 0;`;
}

/** A closed walk over all names in which each ordered pair of neighbours comes once, a name and itself included. */
export function walkOfPairs(names: readonly string[]): string[] {
  const left = new Map(names.map((name) => [name, [...names]]));
  const [first] = names;
  if (first === undefined) return [];
  // Hierholzer: continue while there is a way out, and take a name down where there is none.
  const path = [first];
  const walk: string[] = [];
  for (let at = path.at(-1); at !== undefined; at = path.at(-1)) {
    const next = left.get(at)?.pop();
    if (next === undefined) walk.push(path.pop() as string);
    else path.push(next);
  }
  return walk.reverse();
}

function main(given: readonly string[]): number {
  const names = given.length > 0 ? given : Object.keys(TARGETS);
  const unknown = names.find((name) => TARGETS[name] === undefined);
  if (unknown !== undefined)
    throw new Error(`there is no target ${unknown} here; there are ${Object.keys(TARGETS).join(', ')}`);
  const dir = mkdtempSync(join(tmpdir(), 'skerry-targets-'));
  const folder = join(dir, 'checkout');
  try {
    execFileSync('git', ['clone', '--quiet', ROOT, folder], { stdio: 'inherit' });
    // Not a link: a bundler names what it finds by its real path.
    execFileSync('cp', ['-a', '--link', join(ROOT, 'node_modules'), folder]);
    // As after `npm ci`: newer than package-lock.json.
    execFileSync('cp', ['--remove-destination', join(ROOT, INSTALLED), join(folder, INSTALLED)]);
    const failures: string[] = [];
    let former = 'nothing';
    for (const name of walkOfPairs(names)) {
      const began = performance.now();
      const [program = '', ...args] = TARGETS[name] ?? [];
      const { status } = spawnSync(program, args, { cwd: folder, stdio: 'inherit' });
      const left = execFileSync('git', ['status', '--porcelain'], { cwd: folder, encoding: 'utf8' }).trim();
      const pair = `${name} after ${former}`;
      if (status !== 0) failures.push(`${pair} ended with ${status}`);
      if (left !== '') failures.push(`${pair} left behind: ${left}`);
      process.stdout.write(`=== ${pair}: ${status} in ${formatDuration(performance.now() - began)}\n`);
      former = name;
    }
    for (const failure of failures) process.stdout.write(`FAILED ${failure}\n`);
    return failures.length > 0 ? 1 : 0;
  } finally {
    spawnSync('make', ['clean'], { cwd: folder, stdio: 'inherit' });
    rmSync(dir, { recursive: true, force: true });
  }
}

if (import.meta.main) process.exitCode = main(process.argv.slice(2));
