import { check, timed } from './check.ts';
import { describeTally, runProject, sum } from './vitest.ts';

/**
 * All that CI runs: the checks, then in parallel the tests on a real API server and those on container engines, then the
 * end-to-end tests. Continues after a failure, so that one run shows all failures; the last line has the totals.
 */
const checks = await check();
// They mostly wait, and share nothing but the machine.
const parts = await Promise.all([
  timed('API server tests', () => runProject('api', { later: true })),
  timed('engine tests', () => runProject('engine')),
]);
const stories = await timed('end-to-end tests', () => runProject('e2e'));
const total = sum([checks, ...parts, stories]);
process.stdout.write(`${describeTally(total)}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;
