import { check, timed } from './check.ts';
import { describeTally, runProject, sum } from './vitest.ts';

/**
 * All that CI runs: the checks, then the tests on a real API server, on a container engine, and of the whole. Goes on
 * after a failure, so that one run shows every one; the last line sums up.
 */
const tallies = [await check()];
for (const [project, name] of [
  ['api', 'API server tests'],
  ['engine', 'engine tests'],
  ['e2e', 'end-to-end tests'],
] as const) {
  tallies.push(await timed(name, () => runProject(project)));
}
const total = sum(tallies);
process.stdout.write(`${describeTally(total)}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;
