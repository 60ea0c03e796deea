import { runChecks, timed } from './check.ts';
import { describeFailures, describeTally, runProjects, sum } from './vitest.ts';

/**
 * All that CI runs, what fails soonest first: the checks and the unit tests, then those on a real API server, then the
 * end-to-end tests, alone: their agents and replicas are judged by their timing. The tests on container engines run beside
 * the unit tests and those on an API server, since they mostly wait, and share nothing with them but the machine; what they
 * print comes after. Continues after a failure, so that one run shows all failures; the last
 * lines have what failed and the totals.
 */
const checks = await runChecks();
const others = Promise.withResolvers<void>();
const engines = timed('engine tests', () => runProjects(['engine'], others.promise));
const unit = await timed('unit tests', () => runProjects(['unit', 'alone']));
const api = await timed('API server tests', () => runProjects(['api']));
others.resolve();
const containers = await engines;
const stories = await timed('end-to-end tests', () => runProjects(['e2e']));
const total = sum([...checks, unit, api, containers, stories]);
process.stdout.write(`${describeFailures(total)}${describeTally(total)}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;
