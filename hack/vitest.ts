import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { ROOT } from './paths.ts';

/** Numbers of passed, failed and skipped tests. */
export interface Tally {
  passed: number;
  failed: number;
  skipped: number;
  /** what failed, a line each: its name and the first line of its error */
  failures: readonly string[];
}

/** The projects of vitest.config.ts. */
export type Project = 'unit' | 'alone' | 'api' | 'engine' | 'e2e' | 'cluster';

/** The part of vitest's JSON report that is counted. */
interface Report {
  numPassedTests: number;
  numFailedTests: number;
  numPendingTests: number;
  numTodoTests: number;
  success: boolean;
  testResults: {
    name: string;
    status: string;
    message: string;
    assertionResults: { status: string; fullName: string; failureMessages?: string[] | null }[];
  }[];
}

/** Runs projects in one process of vitest and counts their tests. The output goes to this terminal; with `after` it is kept until then. */
export async function runProjects(projects: readonly Project[], after?: Promise<unknown>): Promise<Tally> {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-vitest-'));
  const file = join(folder, 'report.json');
  try {
    const code = await run(
      [
        ...['run', ...projects.map((project) => `--project=${project}`), '--passWithNoTests'],
        ...['--reporter', 'default', '--reporter', 'json', `--outputFile.json=${file}`],
      ],
      after,
    );
    return tallyOf(readReport(file), code);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/**
 * Counts a report. A file that failed without a failed test (it could not be loaded, or its set-up failed) counts as one
 * failure, and so does such a run (a broken set-up, an unhandled error): no failure may go uncounted.
 */
export function tallyOf(report: Report | undefined, exitCode: number | null): Tally {
  const unknown = exitCode === 0 ? [] : ['a run that failed without a failed test: see its output'];
  if (!report) return { passed: 0, failed: unknown.length, skipped: 0, failures: unknown };
  const failures = report.testResults.flatMap(({ name, status, message, assertionResults }) => {
    const file = relative(ROOT, name);
    const tests = assertionResults.filter((each) => each.status === 'failed');
    if (status === 'failed' && tests.length === 0) return [lineOf(file, message)];
    return tests.map(({ fullName, failureMessages }) => lineOf(`${file} > ${fullName}`, failureMessages?.[0]));
  });
  return {
    passed: report.numPassedTests,
    failed: failures.length || unknown.length,
    skipped: report.numPendingTests + report.numTodoTests,
    failures: failures.length > 0 ? failures : unknown,
  };
}

/** Characters of an error in the list of failures. */
const ERROR_LENGTH = 300;

/** Several lines of an error in one: what follows the first one often has the reason. */
function lineOf(name: string, error = ''): string {
  const text = stripVTControlCharacters(error).replace(/\s+/g, ' ').trim();
  return `${name}: ${text.length > ERROR_LENGTH ? `${text.slice(0, ERROR_LENGTH - 1)}…` : text}`;
}

/** The sum of several tallies. */
export function sum(tallies: readonly Tally[]): Tally {
  return tallies.reduce(
    (total, { passed, failed, skipped, failures }) => ({
      passed: total.passed + passed,
      failed: total.failed + failed,
      skipped: total.skipped + skipped,
      failures: [...total.failures, ...failures],
    }),
    { passed: 0, failed: 0, skipped: 0, failures: [] },
  );
}

/** Lines with what failed, for the end of the output: `FAILED src/a.test.ts > a thing: Error: why`; empty without any. */
export function describeFailures({ failures }: Pick<Tally, 'failures'>): string {
  return failures.map((line) => `FAILED ${line}\n`).join('');
}

/** `312 passed, 0 failed`, and the skipped tests if there are any. */
export function describeTally({ passed, failed, skipped }: Omit<Tally, 'failures'>): string {
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`;
}

/** Time for the rest of the output of a process that has ended. */
const LINGER_MS = 5_000;

async function run(args: string[], after: Promise<unknown> | undefined): Promise<number | null> {
  const vitest = join(ROOT, 'node_modules/vitest/vitest.mjs');
  const output = after ? 'pipe' : 'inherit';
  const child = spawn(process.execPath, [vitest, ...args], { cwd: ROOT, stdio: ['ignore', output, output] });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
    // A process that outlives it may hold its output open.
    child.once('exit', (code) =>
      setTimeout(() => {
        for (const stream of [child.stdout, child.stderr]) stream?.destroy();
        resolve(code);
      }, LINGER_MS).unref(),
    );
  });
  let kept: Buffer[] | undefined = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.on('data', (piece: Buffer) => void (kept ? kept.push(piece) : process.stdout.write(piece)));
  const code = await Promise.race([
    ended,
    after?.then(
      () => undefined,
      () => undefined,
    ) ?? ended,
  ]);
  for (const piece of kept) process.stdout.write(piece);
  kept = undefined;
  return code === undefined ? ended : code;
}

function readReport(file: string): Report | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return undefined;
  }
}
