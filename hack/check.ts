import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { scoreBuiltChart } from './chart-score.ts';
import { checkLanguage } from './language.ts';
import {
  findCycleChanges,
  findUnknownLayers,
  findUnorderedSubjects,
  findUnusedPermissions,
  findViolations,
} from './layers.ts';
import { findDoubleNames } from './names.ts';
import { ROOT } from './paths.ts';
import { formatDuration } from './progress.ts';
import { findBrokenReferences } from './references.ts';
import { repositoryFiles } from './repository.ts';
import { describeFailures, describeTally, runProjects, sum, type Tally } from './vitest.ts';

/** The message of a check that fails; nothing when it passes. */
type Verdict = string | undefined;

interface Check {
  name: string;
  run(): Promise<Verdict>;
}

const CHECKS: readonly Check[] = [
  { name: 'format and lint', run: () => command('biome', ['check', '--error-on-warnings']) },
  { name: 'types', run: async () => (await typesOf('.')) ?? typesOf('src/login-pages/browser') },
  { name: 'import layers', run: async () => checkLayers() },
  { name: 'generated files', run: checkGenerated },
  {
    name: 'unused code',
    run: async () => (await unused()) ?? unused('--production', '--config', 'knip.production.json'),
  },
  { name: 'names', run: async () => checkNames() },
  { name: 'references', run: async () => checkReferences() },
  { name: 'language', run: async () => checkLanguage().join('\n') || undefined },
  { name: 'chart', run: async () => scoreBuiltChart() },
];

const typesOf = (project: string) => command('tsc', ['--project', project]);
const unused = (...more: string[]) => command('knip', ['--no-progress', '--no-config-hints', ...more]);

/**
 * All checks that need neither an engine nor a cluster: prints one line per check, then runs the unit tests. Each check
 * counts as one test.
 */
export async function check(): Promise<Tally> {
  return sum([...(await runChecks()), await timed('unit tests', () => runProjects(['unit', 'alone']))]);
}

/** What `check` does before the unit tests. */
export async function runChecks(): Promise<Tally[]> {
  const tallies: Tally[] = [];
  for (const { name, run } of CHECKS) {
    const start = performance.now();
    const verdict = await run();
    const time = formatDuration(performance.now() - start);
    process.stdout.write(`${verdict === undefined ? 'ok    ' : 'FAILED'} ${name.padEnd(20)} ${time}\n`);
    if (verdict !== undefined) process.stdout.write(`${verdict.trimEnd()}\n`);
    const failures = verdict === undefined ? [] : [`${name}: see above`];
    tallies.push({ passed: 1 - failures.length, failed: failures.length, skipped: 0, failures });
  }
  return tallies;
}

/** Runs a test project and prints the line of a check for it. */
export async function timed(name: string, run: () => Promise<Tally>): Promise<Tally> {
  const start = performance.now();
  const tally = await run();
  const time = formatDuration(performance.now() - start);
  const state = tally.failed === 0 ? 'ok    ' : 'FAILED';
  process.stdout.write(`${state} ${name.padEnd(20)} ${time.padEnd(8)} ${describeTally(tally)}\n`);
  return tally;
}

function checkLayers(): Verdict {
  const rules = JSON.parse(readFileSync(join(import.meta.dirname, 'deps.json'), 'utf8'));
  const files = productFiles();
  const names = [...files.keys()];
  const lines = findViolations(files, rules).map(
    ({ file, imports, reason }) => `  ${file}${imports && ` imports ${imports}`}: ${reason}`,
  );
  const unknown = findUnknownLayers([...names, 'package.json'], rules).map(
    (layer) => `  hack/deps.json names ${layer}, which does not exist`,
  );
  const unused = findUnusedPermissions(files, rules).map(
    (one) => `  hack/deps.json: ${one}, which nothing in it imports`,
  );
  const unordered = findUnorderedSubjects(names, rules).map(
    (subject) => `  hack/deps.json has no place for src/subjects/${subject} in the order of the subjects`,
  );
  const cycles = findCycleChanges(files, rules).map((line) => `  ${line}`);
  const all = [...lines, ...unknown, ...unordered, ...unused, ...cycles];
  return all.length > 0 ? all.join('\n') : undefined;
}

function checkNames(): Verdict {
  const lines = findDoubleNames(productFiles()).map((line) => `  ${line}`);
  return lines.length > 0 ? lines.join('\n') : undefined;
}

/** Path -> text of the files whose imports and names have rules. */
const productFiles = (): Map<string, string> =>
  new Map(
    repositoryFiles(ROOT)
      .filter((path) => PRODUCT.test(path))
      .map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]),
  );

async function checkGenerated(): Promise<Verdict> {
  const generator = join(import.meta.dirname, 'gen.ts');
  return existsSync(generator) ? command(process.execPath, [generator, '--check']) : undefined;
}

/** Every text of the repository. */
function checkReferences(): Verdict {
  const paths = repositoryFiles(ROOT);
  const texts = paths.filter((path) => TEXTS.test(path) && !OWN_WORDS.has(path));
  const files = new Map(texts.map((path) => [path, readFileSync(join(ROOT, path), 'utf8')]));
  const lines = findBrokenReferences(files, paths).map(({ file, line, reason }) => `  ${file}:${line}: ${reason}`);
  return lines.length > 0 ? lines.join('\n') : undefined;
}

const PRODUCT = /^(?:src|agent\/src|cli\/src)\/.*\.ts$/;
const TEXTS = /(?:\.(?:ts|cjs|md|ya?ml|tpl|json|sh)|Makefile)$/;
/** Files that deliberately name what does not exist. */
const OWN_WORDS: ReadonlySet<string> = new Set(['hack/references.ts', 'hack/references.test.ts', 'package-lock.json']);

/** Runs a program of node_modules/.bin; its output is the verdict when it fails. */
function command(name: string, args: string[]): Promise<Verdict> {
  const env = { ...process.env, PATH: `${join(ROOT, 'node_modules/.bin')}${delimiter}${process.env.PATH}` };
  const child = spawn(name, args, { cwd: ROOT, env, stdio: ['ignore', 'pipe', 'pipe'] });
  const output: Buffer[] = [];
  child.stdout.on('data', (piece) => output.push(piece));
  child.stderr.on('data', (piece) => output.push(piece));
  return new Promise((resolve) => {
    child.once('error', (error) => resolve(`${name} could not be started: ${error.message}`));
    child.once('close', (code) => resolve(code === 0 ? undefined : Buffer.concat(output).toString()));
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const tally = await check();
  process.stdout.write(`${describeFailures(tally)}${describeTally(tally)}\n`);
  process.exitCode = tally.failed > 0 ? 1 : 0;
}
