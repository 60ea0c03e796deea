import { setTimeout as sleep } from 'node:timers/promises';
import { watchUsage } from './processes.ts';
import type { Stack } from './stack.ts';

/** CPU-ms: of controller, API server and etcd, and of the controller alone. */
export interface Cost {
  total: number;
  controller: number;
}

/** CPU-ms per second at rest, or while `work` runs. */
export async function rateOf(stack: Stack, work: () => Promise<unknown> = () => sleep(10_000)): Promise<Cost> {
  const usage = watchUsage(stack.pids());
  await work();
  const { cpuMs, seconds } = usage();
  return { total: cpuMs.total / seconds, controller: (cpuMs.controller ?? 0) / seconds };
}

/** CPU-ms for each of `count`, without the usage at rest. */
export async function costOf(stack: Stack, atRest: Cost, count: number, work: () => Promise<unknown>): Promise<Cost> {
  const usage = watchUsage(stack.pids());
  await work();
  const { cpuMs, seconds } = usage();
  return {
    total: (cpuMs.total - atRest.total * seconds) / count,
    controller: ((cpuMs.controller ?? 0) - atRest.controller * seconds) / count,
  };
}
