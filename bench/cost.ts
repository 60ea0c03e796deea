import { setTimeout as sleep } from 'node:timers/promises';
import { type Usage, watchUsage } from './processes.ts';
import type { Stack } from './stack.ts';

/** CPU-ms: of controller, API server and etcd together, and of two of them alone. */
export interface Cost {
  total: number;
  controller: number;
  apiServer: number;
}

const costIn = ({ cpuMs }: Usage): Cost => ({
  total: cpuMs.total,
  controller: cpuMs.controller ?? 0,
  apiServer: cpuMs['API server'] ?? 0,
});
const each = (cost: Cost, change: (ms: number, of: keyof Cost) => number): Cost => ({
  total: change(cost.total, 'total'),
  controller: change(cost.controller, 'controller'),
  apiServer: change(cost.apiServer, 'apiServer'),
});

/** CPU-ms per second at rest, or while `work` runs. */
export async function rateOf(stack: Stack, work: () => Promise<unknown> = () => sleep(10_000)): Promise<Cost> {
  const usage = watchUsage(stack.pids());
  await work();
  const used = usage();
  return each(costIn(used), (ms) => ms / used.seconds);
}

/** CPU-ms for each of `count`, without the usage at rest. */
export async function costOf(stack: Stack, atRest: Cost, count: number, work: () => Promise<unknown>): Promise<Cost> {
  const usage = watchUsage(stack.pids());
  await work();
  const used = usage();
  return each(costIn(used), (ms, of) => (ms - atRest[of] * used.seconds) / count);
}

/** At rest right before a phase: the statuses that an earlier phase wrote are written again five minutes later. */
export async function restOf(stack: Stack): Promise<{ cost: Cost; writes: number }> {
  const wrote = await stack.watchWrites();
  const began = performance.now();
  const cost = await rateOf(stack);
  return { cost, writes: (await wrote()).total / ((performance.now() - began) / 1_000) };
}
