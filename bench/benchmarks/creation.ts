import { setTimeout as sleep } from 'node:timers/promises';
import type { Benchmark } from '../benchmark.ts';
import { percentile, spread } from '../percentile.ts';
import { watchUsage } from '../processes.ts';
import { describeRequests } from '../stack.ts';

/** How long a client that creates an application waits for the response of REST. */
export const creation: Benchmark = {
  name: 'creation',
  about: 'applications created over REST',
  rows: {
    p50: {
      what: 'create an application of 5 microservices, until answered, p50',
      unit: 'ms',
      budget: { atMost: 40 },
      baseline: '190-220',
    },
    p50Busy: { what: 'the same, one right after the other, p50', unit: 'ms' },
    p99Busy: { what: 'the same, one right after the other, p99', unit: 'ms' },
    cpu: { what: 'all that it costs until its node runs it and all is written', unit: 'CPU-ms' },
    cpuController: { what: 'of it, the controller', unit: 'CPU-ms' },
    writes: { what: 'objects written for it', unit: '' },
  },
  async run({ stack: get, profiled }) {
    const stack = await get();
    const { fleet } = stack;
    const count = fleet.applications.length + APPLICATIONS - ALONE;
    await fleet.grow(count + ALONE);
    // Events about the nodes that a rate limit withheld are no part of what an application costs.
    await stack.quiet();
    const written = await stack.watchWrites();
    const used = watchUsage(stack.pids());
    const { n, p50, p99 } = spread(await profiled('creation', () => fleet.deploy(count)));
    await stack.settled(count);
    const { cpuMs } = used();
    const writes = await written();

    const alone: number[] = [];
    for (let i = 0; i < ALONE; i++) {
      alone.push(...(await fleet.deploy(count + i + 1)));
      await sleep(PAUSE_MS);
    }
    return {
      figures: {
        p50: percentile(alone, 0.5),
        p50Busy: p50,
        p99Busy: p99,
        cpu: cpuMs.total / n,
        cpuController: (cpuMs.controller ?? 0) / n,
        writes: writes.total / n,
      },
      notes: [
        `${ALONE} applications ${PAUSE_MS} ms apart; ${n} one right after the other, while the nodes of those before are told of them and report`,
        `written for each, until its node runs it: ${describeRequests(writes, n)}`,
      ],
    };
  },
};

const APPLICATIONS = 200;
const ALONE = 20;
const PAUSE_MS = 500;
