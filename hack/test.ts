import { check, timed } from './check.ts';
import { describeTally, runProject, sum } from './vitest.ts';

/**
 * All that CI runs: the checks, then the tests on a real API server and beside them those on container engines, then
 * those of the whole. Goes on after a failure, so that one run shows every one; the last line sums up.
 */
const checks = await check();
// They wait more than they work, and have nothing in common but the machine.
const parts = await Promise.all([
  timed('API server tests', () => runProject('api', { later: true })),
  timed('engine tests', () => runProject('engine')),
]);
const stories = await timed('end-to-end tests', () => runProject('e2e'));
const total = sum([checks, ...parts, stories]);
process.stdout.write(`${describeTally(total)}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;
