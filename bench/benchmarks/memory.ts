import type { Benchmark } from '../benchmark.ts';
import { liveHeap } from '../inspector.ts';
import { memoryOf } from '../processes.ts';

/** The memory of the processes after all earlier benchmarks. */
export const memory: Benchmark = {
  name: 'memory',
  about: 'memory of controller, API server and etcd after the other benchmarks',
  rows: {
    controller: { what: 'controller: resident memory', unit: 'MiB', budget: { atMost: 1024 } },
    heap: { what: 'controller: JavaScript objects after a full collection', unit: 'MiB' },
    apiServer: { what: 'API server: resident memory', unit: 'MiB', budget: { atMost: 2560 } },
    etcd: { what: 'etcd: resident memory', unit: 'MiB', budget: { atMost: 1024 } },
  },
  async run(context) {
    const stack = await context.stack();
    await stack.settled(200);
    const pids = stack.pids();
    const rss = (pid: number) => memoryOf(pid).rss / 2 ** 20;
    const controller = rss(pids.controller);
    return {
      figures: {
        controller,
        heap: (await liveHeap(stack.controller())) / 2 ** 20,
        apiServer: rss(pids['API server']),
        etcd: rss(pids.etcd),
      },
      notes: [
        `with ${stack.fleet.agents.length} nodes and ${stack.fleet.applications.length} applications of 5; the budgets are those for 10,000 of each`,
      ],
    };
  },
};
