import { cpus } from 'node:os';
import type { Benchmark } from '../benchmark.ts';
import { watchUsage } from '../processes.ts';
import { describeRequests } from '../stack.ts';

/** How fast nodes are provisioned: as many as a small fleet has, several at a time. */
export const provisioning: Benchmark = {
  name: 'provisioning',
  about: 'nodes that take their identity',
  rows: {
    rate: { what: 'provisioning', unit: 'nodes/s', budget: { atLeast: 200 }, baseline: '26' },
    whole: { what: 'create a node, issue its key and provision it', unit: 'nodes/s' },
    cpu: { what: 'all three for one node, and what the controller writes after it', unit: 'CPU-ms' },
    cpuController: { what: 'of it, the controller', unit: 'CPU-ms' },
    writes: { what: 'objects written for it', unit: '' },
  },
  async run({ stack: get, profiled }) {
    const stack = await get();
    const { fleet } = stack;
    const written = await stack.watchWrites();
    const used = watchUsage(stack.pids());
    const grow = () => fleet.grow(fleet.agents.length + NODES);
    const { nodes, created, keyed, provisioned } = await profiled('provisioning', grow);
    await stack.settled(0);
    const { cpuMs } = used();
    const writes = await written();
    return {
      figures: {
        rate: nodes / provisioned.seconds,
        whole: nodes / (created.seconds + keyed.seconds + provisioned.seconds),
        cpu: cpuMs.total / nodes,
        cpuController: (cpuMs.controller ?? 0) / nodes,
        writes: writes.total / nodes,
      },
      notes: [
        `${nodes} nodes, 16 at a time: first all are created, then all keys issued, then all provisioned; their agents poll from then on`,
        `of ${cpus().length} cores ${provisioned.busy.toFixed(1)} were busy while they were provisioned`,
        `written for each: ${describeRequests(writes, nodes)}`,
      ],
    };
  },
};

const NODES = 200;
