import { runChecks, timed } from './check.ts';
import { describeFailures, describeTally, runProjects, sum, type Tally } from './vitest.ts';

/**
 * All that CI runs, in two lanes beside each other: the checks, the unit tests and those on an API server mostly compute; the
 * tests on container engines and the end-to-end tests mostly wait. The lane that computes has the lower priority, since agents
 * and replicas are judged by their timing. The lanes share nothing but the machine. What the other lane prints comes after.
 * Continues after a failure, so that one run shows all failures; the last lines have what failed and the totals.
 */
const computed = Promise.withResolvers<void>();
const waits = runLane([
  () => timed('engine tests', () => runProjects(['engine'], { after: computed.promise })),
  () => timed('end-to-end tests', () => runProjects(['e2e'], { after: computed.promise })),
]);
const computes = await runLane([
  async () => sum(await runChecks()),
  () => timed('unit tests', () => runProjects(['unit', 'alone'], { isBackground: true })),
  () => timed('API server tests', () => runProjects(['api'], { isBackground: true })),
]);
computed.resolve();
const total = sum([...computes, ...(await waits)]);
process.stdout.write(`${describeFailures(total)}${describeTally(total)}\n`);
process.exitCode = total.failed > 0 ? 1 : 0;

/** One after another. */
async function runLane(steps: readonly (() => Promise<Tally>)[]): Promise<Tally[]> {
  const tallies: Tally[] = [];
  for (const step of steps) tallies.push(await step());
  return tallies;
}
